"""FloorGenT's decoder (appendix A): a causal transformer over tokens, with cross-attention to an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.embedding import TokenEmbedding
from floorgent_ros.model.paper.image import Memory, Shown, cross_of, remembered
from floorgent_ros.model.trunk import Trunk, TrunkState


@dataclass
class TokenState(TrunkState):
    """What sampling keeps of N sequences, and how many tokens went in."""

    index: int = 0


def trunk_of(config: SequenceConfig) -> Trunk:
    """Appendix A's stack of layers; cross-attention only where there is an image."""
    return Trunk(
        config.width,
        config.layers,
        config.heads,
        config.feed,
        config.dropout,
        cross=config.observation != "none",
        gate=0.0,
    )


class TokenDecoder(nn.Module):
    """Logits of the next token after each position."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(config)
        self.trunk = trunk_of(config)
        self.out = nn.Linear(config.width, config.vocabulary)
        nn.init.zeros_(self.out.weight)  # uniform over the vocabulary at the start of training
        nn.init.zeros_(self.out.bias)

    def forward(self, tokens: Tensor, shown: Shown | None) -> Tensor:
        """(B, T) tokens and B images → (B, T, V) logits of each token given those before it."""
        cross = cross_of(self.trunk, shown)
        logits: Tensor = self.out(self.trunk(self.embedding.shifted(tokens), cross))
        return logits

    def remember(self, shown: Shown | None) -> Memory | None:
        """What drawing needs of images, once an image."""
        return remembered(self.trunk, shown)

    def begin(self, count: int, length: int, memory: Memory | None) -> TokenState:
        """Room for `count` sequences of at most `length` tokens; memory: of each, or of one image for all."""
        return TokenState(memory.cross if memory else None, self.trunk.cache(count, length + 1))

    def extend(self, tokens: Tensor, state: TokenState, last: int) -> Tensor:
        """Put the next (N, k) tokens in (k = 0 only at the very start) → (N, last, V) logits.

        The last of them are of the token after these k, the ones before of the tokens before it.
        """
        x = self.embedding(tokens, state.index)
        if state.index == 0 and state.cache.filled == 0:
            x = torch.cat([self.embedding.start.expand(len(tokens), 1, -1), x], 1)
        state.index += tokens.shape[1]
        logits: Tensor = self.out(self.trunk(x, state.cross, state.cache)[:, -last:])
        return logits
