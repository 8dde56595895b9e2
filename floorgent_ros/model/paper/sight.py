"""What the image says of the next segment, level by level.

An image of the nearest segments all but spells them: the next one is the nearest of which nothing is drawn,
it begins and ends where walls end or meet, and between its ends all cells are wall. Cross-attention to an
encoder is slow to find that. Here every level of a coordinate knows what the image shows there (`coverage`),
and with tables v that the state makes,

    p(l) ∝ (what `copying` gives) · exp(v[what is there]).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.copying import near_own, reach_of
from floorgent_ros.model.paper.coverage import AROUND, CELLS, RUN, SHARES, View
from floorgent_ros.model.paper.ordering import BINS, binned, distances
from floorgent_ros.model.paper.vocabulary import STEPS


class Sight(nn.Module):
    """Logits from the image, and what it shows at the first end."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        width = config.width
        self.count, self.reach = config.levels, reach_of(config)
        self.nearest = nn.Linear(width, BINS + 1)  # of a column; the last one: nothing is to come there
        self.first = nn.Linear(width, CELLS)
        self.second = nn.ModuleList(nn.Linear(width, SHARES * CELLS) for _ in range(2))
        self.distance = nn.ModuleList(nn.Linear(width, BINS) for _ in range(STEPS - 1))
        self.runs = nn.ModuleList(nn.Embedding(RUN + 1, width) for _ in range(4))
        self.pen = nn.Linear(len(AROUND), width, bias=False)
        self.over = nn.Parameter(torch.zeros(width))
        self.stop = nn.Linear(width, 1)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def stops(self, state: Tensor, view: View) -> Tensor:
        """(B, n) what is added to the logit of stop where all that is shown is drawn; state (B, n, E)."""
        out: Tensor = self.stop(state)[..., 0] * view.over
        return out

    def pens(self, drawn: Tensor, view: View) -> Tensor:
        """(B, n, E) added to the head before coordinate number drawn.shape[-1]: 0 or 2."""
        if drawn.shape[-1]:
            out: Tensor = self.pen(view.around(drawn).to(self.over.dtype))
            for length, embedding in zip(view.runs(drawn).unbind(-1), self.runs, strict=True):
                out = out + embedding(length)
            return out
        return view.over[..., None] * self.over

    def forward(self, state: Tensor, drawn: Tensor, view: View) -> Tensor:
        """(B, n, L) logits of coordinate number drawn.shape[-1]; state (B, n, E), drawn (B, n, k) so far."""
        nearest = view.nearest
        step, least = drawn.shape[-1], nearest.amin(-1)
        if step == 0:
            return self._columns(state, nearest, least)
        near = binned(distances(drawn, self.count), least.nan_to_num(posinf=0.0), self.count)
        near = self.distance[step - 1](state).gather(-1, near)
        return self._cells(state, drawn, view) + near * least.isfinite()[..., None]

    def _cells(self, state: Tensor, drawn: Tensor, view: View) -> Tensor:
        step = drawn.shape[-1]
        if step == 1:
            level = torch.arange(self.count, device=drawn.device).expand(*drawn.shape[:2], -1)
            points = torch.stack([drawn.expand_as(level), level], -1)
            return self.first(state).gather(-1, view.cells(points))
        origin = drawn[..., step - 2]
        level = origin[..., None] + torch.arange(-self.reach, self.reach + 1, device=drawn.device)
        level = level.clamp(0, self.count - 1)
        own = [part[..., None].expand_as(level) for part in drawn.unbind(-1)]
        ends = [level, own[1]] if step == 2 else [own[2], level]
        points = torch.stack(ends, -1)
        way = view.shares(torch.cat([torch.stack(own[:2], -1), points], -1))
        kind = way * CELLS + view.cells(points)
        return near_own(self.second[step - 2](state).gather(-1, kind), origin, self.reach, self.count)

    def _columns(self, state: Tensor, nearest: Tensor, least: Tensor) -> Tensor:
        there = nearest.isfinite()
        beyond = nearest.nan_to_num(posinf=0.0), least.nan_to_num(posinf=0.0)
        index = torch.where(there, binned(*beyond, self.count), BINS)
        found = self.nearest(state).gather(-1, index)
        column = torch.arange(self.count, device=found.device) * nearest.shape[-1] // self.count
        return found[..., column]
