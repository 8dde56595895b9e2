"""The paper's token model at its full size, for time: its decode, and the same without effort beside it.

No such network is trained yet. Random weights take the same time, if the completions have the length that
real ones have: `stop` is made too unlikely to be drawn, and all sequences end at a given number of segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.benchmark.peers import parameters
from floorgent_ros.benchmark.straightforward import TokenByToken
from floorgent_ros.benchmark.timing import Times, take_turns
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.completion import SequenceSampler, given_of
from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import draw_from
from floorgent_ros.model.paper.vocabulary import STOP
from floorgent_ros.model.sampling import Nucleus

SEED = 0
NOISE_STD = 0.02  # added to all weights, so that no gate and no logit is zero
NEVER = -1e4  # logit of stop


@dataclass(frozen=True)
class FullSize:
    """Times by contestant; size, and how many completions both ways drew alike.

    With random weights the rest of a completion is another one from the first token on that rounding decides.
    """

    times: dict[str, Times]
    note: str


def full_size_network() -> SequenceNet:
    """The paper's network that looks at an image (appendix A, section IV-D), random, in evaluation mode."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(SEED)
        network = SequenceNet(SequenceConfig(observation="nearest")).eval()
        for parameter in network.parameters():
            parameter.add_(NOISE_STD * torch.randn_like(parameter))
        network.get_parameter("decoder.out.bias")[STOP] = NEVER
    return network


def measure(
    observation: Observation,
    count: int,
    segments: int,
    rounds: int,
    device: torch.device,
    dtype: torch.dtype,
    synchronise: Callable[[], object],
) -> FullSize:
    """`count` completions of `segments` segments each."""
    network = full_size_network().to(device, dtype)
    ours, eager, nucleus = SequenceSampler(network), TokenByToken(network), Nucleus()
    given = given_of(network, observation)
    seen, plain = ours.look(observation), eager.look(given)
    drawn: dict[str, list[NDArray[np.int64]]] = {}

    def fast() -> None:
        drawn["ours"] = draw_from(network, seen, count, SEED, nucleus=nucleus, segments=segments)

    def plainly() -> None:
        drawn["eager"] = eager.draw(plain, count, SEED, nucleus, segments=segments)

    contestants: dict[str, Callable[[], object]] = {
        "encoder, ours, keys and values included": lambda: ours.look(observation),
        "encoder, as in training": lambda: eager.look(given),
        f"decode, {ours.description}": fast,
        f"decode, {eager.description} with KV cache": plainly,
    }
    times = take_turns(contestants, rounds, synchronise=synchronise)
    alike = sum(map(np.array_equal, drawn["ours"], drawn["eager"]))
    size = f"{parameters(network) / 1e6:.1f} M parameters, random weights"
    return FullSize(
        times, f"{size}, {count} completions of {segments} segments, {alike} drawn alike both ways"
    )
