"""A training run on disk: weights, averages, optimiser and counters in one safetensors file, no pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from floorgent_ros.errors import CheckpointError
from floorgent_ros.whole_file import whole_file


@dataclass
class Progress:
    """Counters of a run; history holds [seconds, training bits, validation bits] a row.

    validated: seconds at the last validation.
    """

    step: int = 0
    seconds: float = 0.0
    validated: float = 0.0
    best_bits: float = float("inf")
    history: list[list[float]] = field(default_factory=list)


def random_state(device: torch.device) -> Tensor:
    """State of the random numbers of this process, of a GPU's too where it computes on one, uint8."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)


def _restore_random(state: Tensor, device: torch.device) -> None:
    size = len(torch.get_rng_state())
    torch.set_rng_state(state[:size])
    if device.type == "cuda" and len(state) > size:
        torch.cuda.set_rng_state(state[size:], device)


def save_state(
    path: Path,
    network: nn.Module,
    average: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    random_states: list[Tensor] | None = None,
) -> None:
    """Write the whole state; the previous one stays until the new one is complete.

    random_states: of each process of the run, by rank; by default of this process alone.
    """
    tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.items()}
    tensors |= {
        f"random.{rank}": state for rank, state in enumerate(random_states or [torch.get_rng_state()])
    }
    for name, parameter in network.named_parameters():
        for key, value in optimiser.state[parameter].items():
            tensors[f"optimiser.{name}.{key}"] = torch.as_tensor(value)
    stored = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with whole_file(path) as part:
        save_file(stored, part, {"progress": json.dumps(vars(progress))})


def load_state(
    path: Path,
    network: nn.Module,
    average: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    rank: int = 0,
) -> Progress:
    """Restore what `save_state` wrote; raises `CheckpointError` in one line.

    A process that the saved run did not have keeps its own random state.
    """
    try:
        with safe_open(path, "pt") as file:
            values: dict[str, Any] = json.loads((file.metadata() or {})["progress"])
            progress = Progress(**values)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        network.load_state_dict(_part(tensors, "model."))
        average.update({k: v.to(average[k].device) for k, v in _part(tensors, "average.").items()})
        for name, parameter in network.named_parameters():
            kept = _part(tensors, f"optimiser.{name}.")
            # the step, too: the fused optimiser counts where the parameters are
            optimiser.state[parameter] = {key: value.to(parameter.device) for key, value in kept.items()}
        if f"random.{rank}" in tensors:
            _restore_random(tensors[f"random.{rank}"], next(network.parameters()).device)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{path}: cannot resume ({reason}); start without --resume in a new folder"
        ) from None
    return progress


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
