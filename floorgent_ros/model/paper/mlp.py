"""The equivalent MLP (appendix B): no attention, a perceptron over a sliding window of tokens.

The appendix reads E = N_fc = 12, where digits seem to be lost; 128 makes the 39 M parameters that the text
calls nearly four times FloorGenT's. As its formula for x₃ leaves Split unused, x₂ is what it takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.embedding import TokenEmbedding


class MlpLayer(nn.Module):
    """The first dense layer sees the whole window, the second each of its places alone."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        joined = config.window * config.width
        self.norm = nn.LayerNorm(joined)
        self.whole = nn.Linear(joined, config.window * config.feed)
        self.each = nn.Linear(config.feed, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.gate = nn.Parameter(torch.zeros(1))
        self.window = config.window

    def forward(self, x: Tensor) -> Tensor:
        """(…, N_w · E) → the same shape."""
        split = functional.relu(self.whole(self.norm(x))).unflatten(-1, (self.window, -1))
        out: Tensor = x + self.gate * self.drop(self.each(split).flatten(-2))
        return out


@dataclass
class MlpState:
    """The last N_w inputs (N, N_w, E) of N sequences and how many tokens went in."""

    inputs: Tensor
    index: int = 0

    def spread(self, times: int) -> None:
        """Go on with `times` copies of each sequence, side by side."""
        self.inputs = self.inputs.repeat_interleave(times, 0)

    def keep(self, rows: list[int]) -> None:
        """Go on with sequences `rows` alone."""
        self.inputs = self.inputs[rows]

    def reorder(self, rows: Tensor) -> None:
        """Go on with sequences `rows` (N,) of the N, each any number of times: beam search."""
        self.inputs = self.inputs[rows]


class MlpDecoder(nn.Module):
    """Logits of the next token from the last `window` inputs; the same interface as `TokenDecoder`."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(config)
        self.window = config.window
        self.layers = nn.Sequential(*(MlpLayer(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.window * config.width)
        self.out = nn.Linear(config.window * config.width, config.vocabulary)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens: Tensor, shown: object = None) -> Tensor:  # noqa: ARG002 (it has none)
        """(B, T) tokens → (B, T, V) logits of each token given those before it; shown: nothing."""
        x = self.embedding.shifted(tokens)
        before = self.embedding.start.expand(len(x), self.window - 1, -1)
        windows = torch.cat([before, x], 1).unfold(1, self.window, 1)  # (B, T, E, N_w)
        return self._logits(windows.transpose(2, 3))

    def remember(self, shown: object) -> None:
        """Nothing: there is no image."""

    def begin(self, count: int, length: int, memory: object = None) -> MlpState:  # noqa: ARG002
        """Nothing but start vectors yet."""
        return MlpState(self.embedding.start.expand(count, self.window, -1))

    def extend(self, tokens: Tensor, state: MlpState, last: int) -> Tensor:
        """Put the next (N, k) tokens in → (N, last, V) logits, as `TokenDecoder.extend`."""
        x = self.embedding(tokens, state.index)
        inputs = torch.cat([state.inputs, x], 1)[:, -(self.window + last - 1) :]
        state.inputs = inputs[:, -self.window :]
        state.index += tokens.shape[1]
        return self._logits(inputs.unfold(1, self.window, 1).transpose(2, 3))

    def _logits(self, windows: Tensor) -> Tensor:
        """(…, N_w, E) → (…, V)."""
        logits: Tensor = self.out(self.norm(self.layers(windows.flatten(-2))))
        return logits
