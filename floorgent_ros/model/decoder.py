"""The segment-factorised decoder: one step a wall, exact likelihood.

A wall's first end is found by sweeping the patches from the viewpoint outwards: patch i holds the next
wall's first end with a probability h_i given that no earlier patch did, so

    p(start = i) = h_i · Π_{current ≤ j < i} (1 − h_j),      p(stop) = Π_{j ≥ current} (1 − h_j).

Then follow the cell in the patch, the direction, the patch along that direction in which the wall ends
(a softmax over the patches met), and the cell in it. The logits point at the encoder's patch vectors, so
the network finds walls where it looks instead of learning coordinates by heart; marks of the walls drawn so
far (`canvas`) enter the same logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.encoder import UNSHUFFLE, Features
from floorgent_ros.model.sequence import FREE, KINDS, Layout
from floorgent_ros.model.trunk import KeyValue, Trunk

MARKS = 3  # canvas channels: an end of a drawn wall, a horizontal wall, a vertical wall in the patch
CELL_KEY = 8  # width of the keys that a single cell gets from the fine features
BLOCKED = -1e4  # logit of what cannot be; float16 holds it


@dataclass(frozen=True)
class Memory:
    """What the decoder keeps of an image; patches in rank order where marked (r), else in grid order.

    cross: the trunk's keys and values. patches (B, G, E). pen (B, C, H, W). start_keys (B, G, K) (r).
    start_bias (B, G) (r). start_marks (B, G, MARKS) (r): what a mark adds to a patch's logit. end_keys
    (B, G, K), end_marks (B, G, MARKS). start_cells, end_cells (B, G, P², C): a key a cell.
    """

    cross: list[KeyValue]
    patches: Tensor
    pen: Tensor
    start_keys: Tensor
    start_bias: Tensor
    start_marks: Tensor
    end_keys: Tensor
    end_marks: Tensor
    start_cells: Tensor
    end_cells: Tensor

    def expand(self, count: int) -> Memory:
        """Repeat a single image's memory for `count` sequences, without copying."""

        def grow(x: Tensor) -> Tensor:
            return x.expand(count, *x.shape[1:])

        return Memory(
            [(grow(k), grow(v)) for k, v in self.cross],
            *(grow(getattr(self, name)) for name in list(self.__dataclass_fields__)[1:]),
        )


class Decoder(nn.Module):
    """Logits of each of the five integers of a wall (see `sequence.Layout`), in their order."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layout = Layout(config.levels, config.patch)
        width, keys, patch = config.width, config.key_width, config.patch_width
        fine, cells, side = config.encoder_widths[0], config.patch**2, self.layout.side
        self.scale = keys**-0.5
        self.to_context = nn.Linear(config.encoder_widths[2], width)
        self.trunk = Trunk(width, config.layers, config.heads, config.feed, config.dropout)
        self.begin = nn.Parameter(torch.empty(width).normal_(std=0.02))
        self.coordinates = nn.ModuleList(nn.Embedding(config.levels, width) for _ in range(4))
        self.kind_in = nn.Embedding(KINDS, width)
        self.pen_in = nn.ModuleList(nn.Linear(fine, width) for _ in range(2))
        self.patch_place = nn.Parameter(torch.empty(self.layout.patches, patch).normal_(std=0.02))
        self.start_query = nn.Linear(width, 2 * keys + MARKS)  # sweep, same patch again, marks
        self.start_key = nn.Linear(patch, keys + 1 + MARKS)
        self.again_bias = nn.Parameter(torch.zeros(1))
        self.cell_in = nn.Linear(width + patch, width)
        self.cell_out = nn.Linear(width, cells)
        self.cell_query = nn.Linear(width, CELL_KEY)
        self.cell_keys = nn.Conv2d(fine, 2 * CELL_KEY * UNSHUFFLE**2, 1)  # of starts and of ends
        self.cell_embed = nn.Embedding(cells, width)
        self.kind_pen = nn.Linear(fine, width)
        self.kind_mix = nn.Linear(width, width)
        self.kind_out = nn.Linear(width, KINDS)
        self.kind_embed = nn.Embedding(KINDS, width)
        self.end_query = nn.Linear(width, keys + MARKS)
        self.end_key = nn.Linear(patch, keys + MARKS)
        self.step_bias = nn.Parameter(torch.zeros(KINDS - 1, side))
        self.end_in = nn.Linear(width + patch, width)
        self.end_out = nn.Linear(width, cells)
        self.end_cell_query = nn.Linear(width, CELL_KEY)
        for name, table in (
            ("patch_of_rank", self.layout.patch_of_rank),
            ("rank_of_patch", self.layout.rank_of_patch),
            ("lines", self.layout.lines),
        ):
            self.register_buffer(name, torch.from_numpy(table), persistent=False)
        nn.init.constant_(self.start_key.bias[keys : keys + 1], -4.0)  # starts are rare
        for embedding in (*self.coordinates, self.kind_in, self.cell_embed, self.kind_embed):
            nn.init.normal_(embedding.weight, std=0.05)

    patch_of_rank: Tensor
    rank_of_patch: Tensor
    lines: Tensor

    def remember(self, features: Features) -> Memory:
        """Everything that depends on the image alone."""
        patches = features.patches + self.patch_place  # (B, G, E)
        keys = self.end_query.out_features - MARKS
        start = self.start_key(patches)[:, self.patch_of_rank]  # (B, G, K + 1 + MARKS)
        end = self.end_key(patches)
        start_cells, end_cells = self._cell_keys(features.pen)
        return Memory(
            cross=self.trunk.context(self.to_context(features.context)),
            patches=patches,
            pen=features.pen,
            start_keys=start[..., :keys],
            start_bias=start[..., keys],
            start_marks=start[..., keys + 1 :],
            end_keys=end[..., :keys],
            end_marks=end[..., keys:],
            start_cells=start_cells,
            end_cells=end_cells,
        )

    def _cell_keys(self, pen: Tensor) -> tuple[Tensor, Tensor]:
        """Fine features → keys (B, G, P², CELL_KEY) of each cell as a wall's first and last end."""
        keys = functional.pixel_shuffle(self.cell_keys(pen), UNSHUFFLE)  # (B, 2 CELL_KEY, L, L)
        side, size = self.layout.side, self.layout.patch
        keys = keys.view(len(pen), 2, CELL_KEY, side, size, side, size).permute(1, 0, 3, 5, 4, 6, 2)
        start, end = keys.reshape(2, len(pen), self.layout.patches, size**2, CELL_KEY)
        return start, end

    def embed(self, levels: Tensor, kind: Tensor, memory: Memory) -> Tensor:
        """(B, n, 4) levels and (B, n) kinds of drawn walls → (B, n, D) trunk inputs."""
        x = self.kind_in(kind)
        for index, embedding in enumerate(self.coordinates):
            x = x + embedding(levels[..., index])
        for index, linear in enumerate(self.pen_in):
            x = x + linear(self.look_up(levels[..., 2 * index : 2 * index + 2], memory.pen))
        return x

    def look_up(self, points: Tensor, pen: Tensor) -> Tensor:
        """(B, n, 2) levels (x, y) → (B, n, C): the fine features there, bilinear."""
        grid = (points.to(pen.dtype) + 0.5) * (2 / self.layout.levels) - 1
        found = functional.grid_sample(pen, grid[:, None], align_corners=False, padding_mode="border")
        return found[:, :, 0].transpose(1, 2)

    def marks(self, levels: Tensor, kind: Tensor) -> Tensor:
        """(B, n, 4) levels and (B, n) kinds → (B, n, G, MARKS) bool, grid order: where each wall lies."""
        patch = torch.div(levels, self.layout.patch, rounding_mode="floor")
        low = torch.minimum(patch[..., :2], patch[..., 2:])
        high = torch.maximum(patch[..., :2], patch[..., 2:])
        axis = torch.arange(self.layout.side, device=levels.device)
        inside = (axis >= low[..., None]) & (axis <= high[..., None])  # (B, n, 2, side)
        covered = inside[..., 1, :, None] & inside[..., 0, None, :]  # (B, n, side, side)
        ends = torch.zeros_like(covered).flatten(-2)
        for first in (0, 2):
            index = patch[..., first + 1] * self.layout.side + patch[..., first]
            ends.scatter_(-1, index[..., None], True)
        covered = covered.flatten(-2)
        horizontal = ((kind == 0) | (kind == 2))[..., None]
        vertical = ((kind == 1) | (kind == 3))[..., None]
        return torch.stack([ends, covered & horizontal, covered & vertical], -1)

    def start(self, state: Tensor, canvas: Tensor, current: Tensor, memory: Memory) -> Tensor:
        """Hazard logits (B, n, G), rank order.

        state (B, n, D); canvas (B, n, G, MARKS), rank order; current (B, n): rank of the last wall's
        patch, −1 before the first wall.
        """
        keys = memory.start_keys.shape[-1]
        query = self.start_query(state)
        logits = query[..., :keys] @ memory.start_keys.transpose(1, 2) * self.scale
        logits = logits + memory.start_bias[:, None]
        canvas = canvas.to(logits.dtype)
        logits = logits + (canvas @ query[..., 2 * keys :, None])[..., 0]
        logits = logits + (canvas * memory.start_marks[:, None]).sum(-1)
        # the patch where the last wall began: whether another begins there is a question of its own
        here = current.clamp(min=0)
        key = memory.start_keys.gather(1, here[..., None].expand(-1, -1, keys))  # (B, n, K)
        again = (query[..., keys : 2 * keys] * key).sum(-1) * self.scale + self.again_bias
        again = torch.where(current >= 0, again, logits.gather(2, here[..., None])[..., 0])
        logits = logits.scatter(2, here[..., None], again[..., None])
        ranks = torch.arange(logits.shape[-1], device=logits.device)
        return logits.masked_fill(ranks < current[..., None], BLOCKED)

    # From here on all tensors are flat: M walls, `batch` (M,) says which image each belongs to.

    def start_cell(
        self, state: Tensor, patch: Tensor, batch: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """State after the start patch (M, D) and logits (M, P²) of the cell in it."""
        state = functional.relu(self.cell_in(torch.cat([state, memory.patches[batch, patch]], -1)))
        query = self.cell_query(state)[..., None]
        return state, self.cell_out(state) + (memory.start_cells[batch, patch] @ query)[..., 0]

    def kind(self, state: Tensor, cell: Tensor, pen: Tensor) -> tuple[Tensor, Tensor]:
        """State after the start cell (M, D) and logits (M, KINDS); pen: (M, C) features at the cell."""
        state = state + self.cell_embed(cell) + self.kind_pen(pen)
        state = state + functional.relu(self.kind_mix(state))
        return state, self.kind_out(state)

    def end(
        self, state: Tensor, kind: Tensor, patch: Tensor, canvas: Tensor, batch: Tensor, memory: Memory
    ) -> tuple[Tensor, Tensor]:
        """State after the kind (M, D) and logits (M, side) of the patch in which a straight wall ends.

        canvas: (M, G, MARKS), grid order.
        """
        state = state + self.kind_embed(kind)
        line = self.lines[kind, patch]  # (M, side)
        index = line.clamp(min=0)
        keys = memory.end_keys.shape[-1]
        query = self.end_query(state)
        logits = (memory.end_keys[batch[:, None], index] @ query[:, :keys, None])[..., 0] * self.scale
        met = canvas.gather(1, index[..., None].expand(-1, -1, MARKS)).to(logits.dtype)
        weight = query[:, None, keys:] + memory.end_marks[batch[:, None], index]
        logits = logits + (met * weight).sum(-1) + self.step_bias[kind]
        return state, logits.masked_fill(line < 0, BLOCKED)

    def end_anywhere(self, state: Tensor, batch: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """The same for free walls: logits (M, G), grid order."""
        state = state + self.kind_embed.weight[FREE]
        keys = memory.end_keys.shape[-1]
        query = self.end_query(state)[:, :keys]
        return state, (memory.end_keys[batch] @ query[..., None])[..., 0] * self.scale

    def end_cell(
        self, state: Tensor, patch: Tensor, cells: Tensor | None, batch: Tensor, memory: Memory
    ) -> Tensor:
        """Logits of the cell in the end's patch: of all (M, P²), or of the given `cells` (M, P)."""
        state = functional.relu(self.end_in(torch.cat([state, memory.patches[batch, patch]], -1)))
        query = self.end_cell_query(state)[..., None]
        logits = self.end_out(state) + (memory.end_cells[batch, patch] @ query)[..., 0]
        return logits if cells is None else logits.gather(-1, cells)

    def cells_along(self, kind: Tensor, cell: Tensor) -> Tensor:
        """(M, P) cells of a patch that a straight wall from `cell` (M,) of its own patch can end in."""
        size = self.layout.patch
        step = torch.arange(size, device=cell.device)
        row = torch.div(cell, size, rounding_mode="floor")[:, None] * size + step
        column = step * size + (cell % size)[:, None]
        return torch.where((kind % 2 == 0)[:, None], row, column)
