"""The processes of one training run: alone, or several under torchrun that share each batch.

``torchrun --nproc-per-node 2 --no-python floorgent train …`` starts two. On CPUs two single-threaded
processes take about 1.4 times the steps of one process with two threads.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

_PATIENCE = timedelta(hours=6)  # the first process draws samples or validates while the others wait


@dataclass(frozen=True)
class Processes:
    """This process's rank among `count`; with one process nothing is sent."""

    rank: int = 0
    count: int = 1

    @classmethod
    def join(cls) -> Processes:
        """Meet the other processes that torchrun started (its environment names them); alone without it."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        if not distributed.is_initialized():
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            distributed.init_process_group(backend, timeout=_PATIENCE)
        return cls(distributed.get_rank(), count)

    @staticmethod
    def leave() -> None:
        """Part from the other processes."""
        if distributed.is_initialized():
            distributed.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """The GPU of this process where there is one, else the CPU."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))

    def parallel(self, network: nn.Module) -> nn.Module:
        """Wrap the network so that its gradients are averaged over the processes."""
        if self.count == 1:
            return network
        devices = [self.device] if self.device.type == "cuda" else None
        # a share of a batch without a single slanted wall leaves the layers for such walls unused
        return DistributedDataParallel(network, devices, find_unused_parameters=True)

    def total(self, value: Tensor) -> Tensor:
        """The sum of every process's value; same shape."""
        if self.count > 1:
            value = value.clone()
            distributed.all_reduce(value)
        return value

    def of_first(self, value: float) -> float:
        """The first process's number, so that all decide alike."""
        if self.count == 1:
            return value
        sent = torch.tensor([value], dtype=torch.float64, device=self.device)
        distributed.broadcast(sent, 0)
        return float(sent)

    def gathered(self, value: Tensor) -> list[Tensor]:
        """Every process's value, by rank."""
        if self.count == 1:
            return [value]
        sent = value.to(self.device)
        values = [torch.empty_like(sent) for _ in range(self.count)]
        distributed.all_gather(values, sent)
        return [received.to(value.device) for received in values]

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            distributed.barrier()
