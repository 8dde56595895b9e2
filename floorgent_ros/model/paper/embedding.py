"""The input of the token decoders: a sum of three discrete embeddings (section III-B, figure 2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.vocabulary import Vocabulary

START_STD = 0.3  # of an embedding's elements before training
SHORTEST_WAVE = 4.0  # entries


@torch.no_grad()
def start_as_waves(embedding: nn.Embedding) -> None:
    """Let an embedding of ordered entries (levels, positions) start so that neighbours resemble each other.

    Sine and cosine of each entry's number, wavelengths from 4 entries to twice their count, projected at
    random so that embeddings that are summed do not overlap. The entries are learned from there; from noise
    they take several times the samples.
    """
    count, width = embedding.weight.shape
    pairs = max(1, width // 4)
    waves = torch.logspace(math.log10(SHORTEST_WAVE), math.log10(2 * count), pairs)
    phase = 2 * math.pi * torch.arange(count)[:, None] / waves
    features = torch.cat([phase.sin(), phase.cos()], 1)  # (count, 2 pairs), mean square 1 / 2
    embedding.weight.copy_(START_STD / math.sqrt(pairs) * features @ torch.randn(2 * pairs, width))


class TokenEmbedding(nn.Module):
    """Value, place in the triplet and the triplet's position; a learned vector starts the sequence."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.vocabulary = Vocabulary(config.levels, config.opcodes)
        self.start = nn.Parameter(START_STD * torch.randn(config.width))
        self.value = nn.Embedding(config.vocabulary, config.width)
        self.place = nn.Embedding(3, config.width)
        self.position = nn.Embedding(2 * config.max_segments + 1, config.width) if config.positions else None
        for embedding in (self.value, self.position):
            if embedding is not None:
                start_as_waves(embedding)
        nn.init.normal_(self.place.weight, std=START_STD)

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
