"""Which of the walls in an image the segments so far have drawn, and which are still to come."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.corners import distance, radius

NEVER = 1e6  # the number of a segment that no sequence reaches
PATTERNS = 3  # of a wall's cell: an end, straight on, a corner
STRAIGHT = 1
CELLS = 2 + 3 * PATTERNS  # not a wall, the same beside one to come; of each pattern: drawn, beside, to come
SHARES = 5  # of a way's cells that are to come: there are none, 0, less than half, less than all, all
SLIPPING = 0.15  # of the segments in training are taken to be drawn this much off:
SLIP_CELLS = 1
RUN = 40  # cells that are counted in a direction
BESIDE = ((1, 0), (-1, 0), (0, 1), (0, -1))
AROUND = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


@dataclass
class Coverage:
    """Images (B, C, C) of segments on `levels` levels, and the sequences that redraw them.

    pattern int64: `PATTERNS`, of the cells of walls. first float: the number of the first segment that covers
    a cell or lies beyond it, `NEVER` where none does; −1 without wall. near: the largest `first` of a cell
    and its eight neighbours. longest: cells of the longest segment.

    Segments come nearest first, so what is nearer than the last one is not to come: a segment that was drawn
    a little off leaves no crumbs behind at which the next ones would have to begin.
    """

    pattern: Tensor
    first: Tensor
    near: Tensor
    levels: int
    longest: int

    @classmethod
    def of(cls, image: Tensor, config: SequenceConfig) -> Coverage:
        """Of images (B, C, C) bool of which nothing is drawn."""
        first = torch.where(image, NEVER, -1.0)
        cells = config.longest_m / config.extent_m * image.shape[-1]
        return cls(_patterns(image), first, _near(first), config.levels, math.ceil(cells) + 2)

    def added(self, segments: Tensor, number: int) -> Coverage:
        """With (B, k, 4) levels of segments number `number` and after drawn over them."""
        index, valid = cells_of(segments, self.levels, self.size, self.longest)
        count, device = segments.shape[1], segments.device
        numbers = torch.arange(number, number + count, device=device, dtype=self.first.dtype)
        covering = torch.where(valid, numbers[:, None], NEVER)
        first = self.first.flatten(1).scatter_reduce(1, index.flatten(1), covering.flatten(1), "amin")
        first = torch.minimum(first.view_as(self.first), self._passed(segments, numbers))
        return Coverage(self.pattern, first, _near(first), self.levels, self.longest)

    def _passed(self, segments: Tensor, numbers: Tensor) -> Tensor:
        """(B, C, C) number of the first of (B, k, 4) segments beyond a cell; `NEVER` where there is none."""
        if segments.shape[1] == 0:
            return torch.full_like(self.first, NEVER)
        reached = distance(segments, self.levels).cummax(1).values
        slack = math.sqrt(2) * self.levels / self.size  # a segment's own cells are nearer by this at most
        beyond = (self.radii + slack).flatten().expand(len(segments), -1).contiguous()
        place = torch.searchsorted(reached, beyond, right=True).view_as(self.first)
        return torch.cat([numbers, numbers.new_tensor([NEVER])])[place]

    @property
    def radii(self) -> Tensor:
        """(C, C) distance of the cells' centres from the viewpoint, levels."""
        axis = (torch.arange(self.size, device=self.first.device) + 0.5) * (self.levels / self.size) - 0.5
        return radius(torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1), self.levels)

    def changed(self, change: Callable[[Tensor], Tensor]) -> Coverage:
        """Of other sequences, which `change` takes from tensors (B, …)."""
        kept = (change(self.pattern), change(self.first), change(self.near))
        return Coverage(*kept, self.levels, self.longest)

    @property
    def size(self) -> int:
        """Cells a side."""
        return self.first.shape[-1]


@dataclass
class View:
    """Coverage before each of n segments, of which `numbers` (n,) int64 are the numbers."""

    coverage: Coverage
    numbers: Tensor

    @property
    def over(self) -> Tensor:
        """(B, n) bool: all that the image shows is drawn."""
        most = self.coverage.near.flatten(1).amax(1)
        return most[:, None] < self.numbers

    @cached_property
    def nearest(self) -> Tensor:
        """(B, n, C) distance in levels of the nearest cell of a column at which a segment to come can end.

        +inf where there is none.
        """
        near, size = self.coverage.near, self.coverage.size
        last = int(self.numbers[-1]) + 1
        far = torch.where(self.coverage.first >= 0, self.coverage.radii, torch.inf)  # (B, rows, columns)
        least = near.new_full((len(near), size, last + 1), torch.inf)
        slot = near.clamp(0, last).long().transpose(1, 2)
        least = least.scatter_reduce(2, slot, far.transpose(1, 2), "amin")
        least = least.flip(-1).cummin(-1).values.flip(-1)
        return least[..., self.numbers].transpose(1, 2)

    def cells(self, points: Tensor) -> Tensor:
        """(B, n, m, 2) levels → (B, n, m) int64, below `CELLS`: what is there."""
        index = self._index(self._cells(points))
        first = _at(self.coverage.first, index)
        beside = (_at(self.coverage.near, index) >= self._number).long()
        status = torch.where(first >= self._number, 2, beside)
        wall = 2 + 3 * _at(self.coverage.pattern, index) + status
        return torch.where(first >= 0, wall, beside)

    def shares(self, segments: Tensor) -> Tensor:
        """(B, n, m, 4) levels → (B, n, m) int64, below `SHARES`: of the cells from the first end on."""
        coverage = self.coverage
        index, valid = cells_of(segments, coverage.levels, coverage.size, coverage.longest)
        valid = valid & (index != self._index(self._cells(segments[..., :2]))[..., None])
        count = valid.sum(-1)
        found = ((_at(coverage.first, index) >= self._number[..., None]) & valid).sum(-1)
        part = torch.where(found == 0, 1, torch.where(2 * found < count, 2, 3))
        part = torch.where(found == count, 4, part)
        return torch.where(count == 0, 0, part)

    def around(self, points: Tensor) -> Tensor:
        """(B, n, 2) levels → (B, n, 8) bool: which of the neighbouring cells are to come."""
        cells = self._cells(points)[:, :, None] + torch.tensor(AROUND, device=points.device)
        return self._first(cells) >= self._number

    def runs(self, points: Tensor) -> Tensor:
        """(B, n, 2) levels → (B, n, 4) int64, at most `RUN`: cells to where a wall to come ends or meets one.

        To the right, left, up and down; 0 where none leaves.
        """
        ways = torch.tensor(BESIDE, device=points.device)
        steps = torch.arange(1, RUN + 1, device=points.device)
        cells = self._cells(points)[:, :, None, None] + ways[:, None] * steps[:, None]
        first = self._first(cells)  # (B, n, 4, RUN)
        straight = _at(self.coverage.pattern, self._index(self._within(cells))) == STRAIGHT
        length = ((first >= self._number[..., None]) & straight).long().cumprod(-1).sum(-1)
        end = (first >= 0).long().gather(-1, length.clamp(max=RUN - 1)[..., None])[..., 0]
        return torch.where(first[..., 0] >= self._number, (length + end).clamp(max=RUN), 0)

    @property
    def _number(self) -> Tensor:
        return self.numbers[:, None].to(self.coverage.first.dtype)

    def _cells(self, points: Tensor) -> Tensor:
        """(…, 2) levels → (…, 2) the columns and rows that they are in."""
        return points * self.coverage.size // self.coverage.levels

    def _within(self, cells: Tensor) -> Tensor:
        return cells.clamp(0, self.coverage.size - 1)

    def _index(self, cells: Tensor) -> Tensor:
        return cells[..., 1] * self.coverage.size + cells[..., 0]

    def _first(self, cells: Tensor) -> Tensor:
        """`Coverage.first` at columns and rows (B, …, 2); −1, no wall, outside of the image."""
        within = self._within(cells)
        first = _at(self.coverage.first, self._index(within))
        return first.masked_fill((within != cells).any(-1), -1.0)


def cells_of(segments: Tensor, levels: int, size: int, longest: int) -> tuple[Tensor, Tensor]:
    """(…, 4) levels → (…, longest) the cells that `geometry.raster` draws of each, and which of them count.

    Cells are y · size + x, row 0 = lowest y.
    """
    ends = segments * size // levels
    swapped = torch.where(ends[..., 2:3] < ends[..., :1], ends.roll(2, -1), ends)
    x, y, x_end, y_end = swapped.unbind(-1)
    run, rise = x_end - x, (y_end - y).abs()
    step = torch.where(y_end >= y, 1, -1)
    most, least = torch.maximum(run, rise), torch.minimum(run, rise)
    along = torch.arange(longest, device=segments.device)
    valid = along <= most[..., None]
    along = torch.minimum(along, most[..., None])
    whole = most.clamp(min=1)[..., None]
    across = (2 * least[..., None] * along + whole - 1) // (2 * whole)  # next to it, the lower of two
    flat = (run >= rise)[..., None]
    columns = x[..., None] + torch.where(flat, along, across)
    rows = y[..., None] + step[..., None] * torch.where(flat, across, along)
    return rows * size + columns, valid


def _at(values: Tensor, index: Tensor) -> Tensor:
    """(B, C, C) at cells (B, …)."""
    return values.flatten(1).gather(1, index.flatten(1)).view(index.shape)


def slipped(segments: Tensor, levels: int, size: int) -> Tensor:
    """(B, k, 4) levels of which some are shifted by a cell, at random.

    What is drawn is now and then a cell off, and what it should have covered then stays to come. A network
    that has seen whole coverage alone goes on to draw at such crumbs for ever.
    """
    shape, device = segments.shape[:2], segments.device
    far = SLIP_CELLS * levels // size
    shift = torch.randint(-1, 2, (*shape, 2), device=device) * far
    chosen = torch.rand(shape, device=device) < SLIPPING
    moved = segments + (shift * chosen[..., None]).repeat(1, 1, 2)
    return moved.clamp(0, levels - 1)


def _near(first: Tensor) -> Tensor:
    return functional.max_pool2d(first[:, None], 3, 1, 1)[:, 0]


def _patterns(image: Tensor) -> Tensor:
    """(B, C, C) bool → int64: of a wall's cell 0 an end, 1 straight on, 2 a corner.

    What is beside a cell decides; what is diagonal to it only where it goes on along a slant.
    """
    padded = functional.pad(image, (1, 1, 1, 1))
    size = image.shape[-1]
    found = {(x, y): padded[:, 1 + y : 1 + y + size, 1 + x : 1 + x + size] for x, y in AROUND}
    opposite = {(x, y): found[x, y] & found[-x, -y] for x, y in AROUND}
    beside = torch.stack([found[way] for way in BESIDE]).sum(0)
    on = torch.where(
        beside == 2,
        opposite[1, 0] | opposite[0, 1],
        (beside < 2) & torch.stack([*opposite.values()]).any(0),
    )
    return torch.where(on, STRAIGHT, torch.where(beside < 2, 0, 2))
