"""What the numbers were taken on."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path

import torch


def allocator() -> str:
    """The memory allocator of this process, which costs or saves much of a small network's time."""
    maps = Path("/proc/self/maps")
    loaded = maps.read_text(encoding="utf-8") if maps.is_file() else ""
    for name in ("tcmalloc", "jemalloc", "mimalloc"):
        if name in loaded:
            return name
    kept = [name for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_") if name in os.environ]
    return f"glibc with {' and '.join(kept)}" if kept else "glibc as it is"


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def peak_mib(device: torch.device) -> float:
    """The most memory so far, MiB: of the GPU's tensors on CUDA, else of the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def describe(device: torch.device, precision: str) -> dict[str, object]:
    """Device, number format, threads, allocator and how busy the machine is."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "precision": precision,
        "allocator": allocator(),
        "torch": torch.__version__,
    }
