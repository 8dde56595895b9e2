"""The likelihood of a sequence of walls written out step by step, without cache and without batches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floorgent_ros.model.decoder import BLOCKED, Memory
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.sequence import FREE

ONE = torch.zeros(1, dtype=torch.int64)  # a single sequence: everything belongs to image 0


def remember(network: FloorNet, image: NDArray[np.int8]) -> Memory:
    return network.decoder.remember(network.encoder(torch.from_numpy(image)[None]))


def state_and_canvas(network: FloorNet, memory: Memory, prefix: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Trunk state (D,) and canvas (G, MARKS), grid order, after the walls of prefix (n, 5)."""
    decoder = network.decoder
    inputs = decoder.begin.expand(1, 1, -1)
    canvas = torch.zeros(decoder.layout.patches, 3, dtype=torch.bool)
    for row in prefix:
        levels = torch.from_numpy(decoder.layout.decode(row))[None]
        kind = torch.tensor([[row[2]]])
        inputs = torch.cat([inputs, decoder.embed(levels, kind, memory)], 1)
        canvas = canvas | decoder.marks(levels, kind)[0, 0]
    states = decoder.trunk(inputs, memory.cross)
    return states[0, -1], canvas


def start_probability(network: FloorNet, memory: Memory, prefix: NDArray[np.int64]) -> NDArray[np.float64]:
    """(G + 1,): probability of each rank as the next start, the stop last, from the hazards one by one."""
    decoder = network.decoder
    state, canvas = state_and_canvas(network, memory, prefix)
    current = int(prefix[-1, 0]) if len(prefix) else -1
    logits = decoder.start(
        state[None, None], canvas[decoder.patch_of_rank][None, None], torch.tensor([[current]]), memory
    )[0, 0].double()
    probabilities, passed = [], 1.0
    for rank, logit in enumerate(logits):
        hazard = 0.0 if rank < current else float(torch.sigmoid(logit))
        probabilities.append(passed * hazard)
        passed *= 1.0 - hazard
    return np.array([*probabilities, passed])


def wall_probability(
    network: FloorNet, memory: Memory, prefix: NDArray[np.int64], row: NDArray[np.int64]
) -> float:
    """Probability of the wall's last four integers given its first and the walls before."""
    decoder = network.decoder
    state, canvas = state_and_canvas(network, memory, prefix)
    rank, cell, kind, step, end_cell = torch.from_numpy(row)[:, None]
    patch = decoder.patch_of_rank[rank]
    after, logits = decoder.start_cell(state[None], patch, ONE, memory)
    if len(prefix) and prefix[-1, 0] == row[0]:
        logits[:, : prefix[-1, 1]] = BLOCKED  # the sequence ascends
    probability = _chosen(logits, cell)
    pen = decoder.look_up(torch.from_numpy(decoder.layout.decode(row))[None, :, :2], memory.pen)[0]
    after, logits = decoder.kind(after, cell, pen)
    probability *= _chosen(logits, kind)
    if row[2] == FREE:
        after, logits = decoder.end_anywhere(after, ONE, memory)
        end_patch, line = step, None
    else:
        after, logits = decoder.end(after, kind, patch, canvas[None], ONE, memory)
        end_patch, line = decoder.lines[kind, patch, step], decoder.cells_along(kind, cell)
    probability *= _chosen(logits, step)
    return probability * _chosen(decoder.end_cell(after, end_patch, line, ONE, memory), end_cell)


def nats(network: FloorNet, image: NDArray[np.int8], rows: NDArray[np.int64]) -> float:
    """Negative log probability of a whole sequence (n, 5), its stop included."""
    memory = remember(network, image)
    total = 0.0
    for index, row in enumerate(rows):
        total -= np.log(start_probability(network, memory, rows[:index])[row[0]])
        total -= np.log(wall_probability(network, memory, rows[:index], row))
    return float(total - np.log(start_probability(network, memory, rows)[-1]))


def _chosen(logits: Tensor, index: Tensor) -> float:
    return float(logits.double().softmax(-1)[0, index[0]])
