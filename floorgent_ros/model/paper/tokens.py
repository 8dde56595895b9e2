"""FloorGenT's decoder (appendix A): a causal transformer over tokens, with cross-attention to an image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.embedding import TokenEmbedding
from floorgent_ros.model.trunk import KeyValue, Trunk, TrunkState


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

    def forward(self, tokens: Tensor, context: Tensor | None) -> Tensor:
        """(B, T) tokens, (B, S, E) image vectors → (B, T, V) logits of each token given those before it."""
        cross = None if context is None else self.trunk.context(context)
        logits: Tensor = self.out(self.trunk(self.embedding.shifted(tokens), cross))
        return logits

    def remember(self, context: Tensor | None) -> list[KeyValue] | None:
        """What cross-attention needs of images' vectors (B, S, E), once an image."""
        return None if context is None else self.trunk.context(context)

    def begin(self, count: int, length: int, cross: list[KeyValue] | None) -> TokenState:
        """Room for `count` sequences of at most `length` tokens; cross: of each, or of one image for all."""
        return TokenState(cross, self.trunk.cache(count, length + 1))

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
