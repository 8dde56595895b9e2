"""The input of the token decoders: a sum of three discrete embeddings (section III-B, figure 2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.vocabulary import Vocabulary


class TokenEmbedding(nn.Module):
    """Value, place in the triplet and the triplet's position; a learned vector starts the sequence."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.vocabulary = Vocabulary(config.levels, config.opcodes)
        self.start = nn.Parameter(0.05 * torch.randn(config.width))
        self.value = nn.Embedding(config.vocabulary, config.width)
        self.place = nn.Embedding(3, config.width)
        self.position = nn.Embedding(2 * config.max_segments + 1, config.width) if config.positions else None
        for embedding in (self.value, self.place, self.position):
            if embedding is not None:
                nn.init.normal_(embedding.weight, std=0.05)

    def forward(self, tokens: Tensor, first: int = 0) -> Tensor:
        """(B, T) tokens that stand at `first` and after → (B, T, E)."""
        place, position = self.vocabulary.place(
            torch.arange(first, first + tokens.shape[1], device=tokens.device)
        )
        x = self.value(tokens) + self.place(place)
        return x if self.position is None else x + self.position(position)

    def shifted(self, tokens: Tensor) -> Tensor:
        """(B, T) tokens → (B, T, E) what is known before each: the start, then all but the last token."""
        start = self.start.expand(len(tokens), 1, -1)
        return torch.cat([start, self(tokens[:, :-1])], 1)
