"""The whole network: observation image and walls → exact log likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.decoder import BLOCKED, Decoder, Memory
from floorgent_ros.model.encoder import Encoder, Features
from floorgent_ros.model.sequence import FREE


@dataclass(frozen=True)
class Batch:
    """B samples padded to n walls.

    image (B, L, L) int8. rows (B, n, 5) int64 as `Layout.encode` returns, zero-padded. levels (B, n, 4)
    int64: the same walls as `Layout.decode` returns. lengths (B,). raster (B, L, L) bool: cells of the
    unseen walls.
    """

    image: Tensor
    rows: Tensor
    levels: Tensor
    lengths: Tensor
    raster: Tensor

    def to(self, device: torch.device | str) -> Batch:
        """Move all tensors."""
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Losses:
    """Negative log likelihood in nats: per sample (B,), and summed by part.

    parts: sweep (start patch and stop), start_cell, kind, end_patch, end_cell. raster: mean binary cross
    entropy of the dense head, nats a cell.
    """

    nats: Tensor
    parts: dict[str, Tensor]
    raster: Tensor


class FloorNet(nn.Module):
    """Encoder and decoder with their configuration."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def forward(self, batch: Batch) -> Losses:
        """Teacher-forced negative log likelihood of each sample's walls given its image."""
        features = self.encoder(batch.image)
        memory = self.decoder.remember(features)
        states, canvas = self._states(batch, memory)
        sweep = self._sweep(batch, states, canvas, memory)  # (B,)
        samples, steps = torch.nonzero(_valid(batch), as_tuple=True)  # M walls
        parts = self._walls(batch, states[samples, steps], canvas, samples, steps, memory)
        nats = sweep
        for part in parts.values():
            nats = nats.index_add(0, samples, part)
        sums = {"sweep": sweep.sum(), **{name: part.sum() for name, part in parts.items()}}
        return Losses(nats, sums, _raster_loss(features, batch))

    def _states(self, batch: Batch, memory: Memory) -> tuple[Tensor, Tensor]:
        """Trunk states (B, n + 1, D) and canvases (B, n + 1, G, MARKS), grid order, before each step."""
        kind = batch.rows[..., 2]
        walls = self.decoder.embed(batch.levels, kind, memory)
        first = self.decoder.begin.expand(len(walls), 1, -1)
        states = self.decoder.trunk(torch.cat([first, walls], 1), memory.cross)
        marks = self.decoder.marks(batch.levels, kind).to(torch.float32)
        drawn = marks.cumsum(1).clamp_(max=1)
        return states, torch.cat([torch.zeros_like(drawn[:, :1]), drawn], 1)

    def _sweep(self, batch: Batch, states: Tensor, canvas: Tensor, memory: Memory) -> Tensor:
        """Nats of all start patches and the stop, (B,)."""
        rank = batch.rows[..., 0]
        current = functional.pad(rank, (1, 0), value=-1)  # (B, n + 1)
        stop = torch.arange(current.shape[1], device=rank.device) >= batch.lengths[:, None]
        target = functional.pad(rank, (0, 1)).masked_fill(stop, self.decoder.layout.patches)
        logits = self.decoder.start(states, canvas[:, :, self.decoder.patch_of_rank], current, memory)
        ranks = torch.arange(logits.shape[-1], device=rank.device)
        passed = (ranks >= current[..., None]) & (ranks <= target[..., None])
        nats = (functional.softplus(logits) * passed).sum(-1)
        last = target.clamp(max=self.decoder.layout.patches - 1)[..., None]
        nats = nats - torch.where(stop, 0.0, logits.gather(-1, last)[..., 0])
        counted = torch.arange(current.shape[1], device=rank.device) <= batch.lengths[:, None]
        return (nats * counted).sum(1)

    def _walls(
        self, batch: Batch, state: Tensor, canvas: Tensor, samples: Tensor, steps: Tensor, memory: Memory
    ) -> dict[str, Tensor]:
        """Nats (M,) of the rest of each wall after its start patch."""
        decoder = self.decoder
        rank, cell, kind, step, end_cell = batch.rows[samples, steps].unbind(-1)
        patch = decoder.patch_of_rank[rank]
        pen = decoder.look_up(batch.levels[..., :2], memory.pen)[samples, steps]  # (M, C)
        state, logits = decoder.start_cell(state, patch, samples, memory)
        before = batch.rows[samples, (steps - 1).clamp(min=0)]
        again = (steps > 0) & (before[:, 0] == rank)
        cells = torch.arange(logits.shape[1], device=rank.device)
        logits = logits.masked_fill(again[:, None] & (cells < before[:, 1:2]), BLOCKED)
        parts = {"start_cell": functional.cross_entropy(logits, cell, reduction="none")}
        state, logits = decoder.kind(state, cell, pen)
        parts["kind"] = functional.cross_entropy(logits, kind, reduction="none")
        end_patch_nats, end_cell_nats = torch.zeros_like(parts["kind"]), torch.zeros_like(parts["kind"])
        for free in (False, True):
            chosen = torch.nonzero((kind == FREE) == free)[:, 0]
            if len(chosen) == 0:
                continue
            group = samples[chosen]
            if free:
                after, logits = decoder.end_anywhere(state[chosen], group, memory)
                end_patch = step[chosen]
            else:
                drawn = canvas[group, steps[chosen]]  # (M, G, MARKS)
                after, logits = decoder.end(state[chosen], kind[chosen], patch[chosen], drawn, group, memory)
                end_patch = decoder.lines[kind[chosen], patch[chosen], step[chosen]]
            found = functional.cross_entropy(logits, step[chosen], reduction="none")
            end_patch_nats = end_patch_nats.index_put((chosen,), found)
            line = None if free else decoder.cells_along(kind[chosen], cell[chosen])
            logits = decoder.end_cell(after, end_patch, line, group, memory)
            found = functional.cross_entropy(logits, end_cell[chosen], reduction="none")
            end_cell_nats = end_cell_nats.index_put((chosen,), found)
        return {**parts, "end_patch": end_patch_nats, "end_cell": end_cell_nats}


def _valid(batch: Batch) -> Tensor:
    """(B, n) bool: the entry is a wall, not padding."""
    return torch.arange(batch.rows.shape[1], device=batch.rows.device) < batch.lengths[:, None]


def _raster_loss(features: Features, batch: Batch) -> Tensor:
    return functional.binary_cross_entropy_with_logits(
        features.raster, batch.raster.to(features.raster.dtype)
    )
