"""Image encoder and decoder of the paper's family as one network: likelihood, and scores token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.network import Losses
from floorgent_ros.model.paper.config import MLP, SEGMENTS, SequenceConfig
from floorgent_ros.model.paper.mixer import Mixer
from floorgent_ros.model.paper.mlp import MlpDecoder
from floorgent_ros.model.paper.resnet import ResNet
from floorgent_ros.model.paper.segments import SegmentDecoder
from floorgent_ros.model.paper.tokens import TokenDecoder
from floorgent_ros.model.paper.vocabulary import COORDINATES, LENGTH, Vocabulary

Decoder = TokenDecoder | MlpDecoder | SegmentDecoder


@dataclass(frozen=True)
class SequenceBatch:
    """B samples padded to n segments.

    levels (B, n, 4) int64, zero-padded, in canonical order. lengths (B,). image (B, C, C) bool, row 0 =
    lowest y; (B, 0, 0) for a model without image.
    """

    levels: Tensor
    lengths: Tensor
    image: Tensor

    def to(self, device: torch.device | str) -> SequenceBatch:
        """Move all tensors."""
        return SequenceBatch(self.levels.to(device), self.lengths.to(device), self.image.to(device))

    @property
    def tokens(self) -> Tensor:
        """How many tokens the samples have in all, whatever a model leaves out: 6 n + 1 each."""
        return (LENGTH * self.lengths + 1).sum()


@dataclass(frozen=True)
class Scores:
    """What a model says of each token, (B, 6 n + 1); tokens that it does not spend have probability one.

    nats: negative log likelihood. rank: how many tokens it held more likely. confidence: the probability of
    the likeliest. counted: bool, the token belongs to the sample (its stop does, padding does not).
    """

    nats: Tensor
    rank: Tensor
    confidence: Tensor
    counted: Tensor


class ImageEncoder(nn.Module):
    """An off-the-shelf network's features plus a learned linear map of their (x, y) (figure 2)."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.features = ResNet(config) if config.image_encoder == "resnet" else Mixer(config)
        self.place = nn.Linear(2, config.width)

    def forward(self, image: Tensor) -> Tensor:
        """(B, C, C) bool → (B, S, E), one vector a place."""
        features = self.features(image.to(self.place.weight.dtype) - 0.5)  # (B, E, H, W)
        axis = torch.linspace(-1, 1, features.shape[-1], device=image.device, dtype=features.dtype)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        out: Tensor = features.flatten(2).transpose(1, 2) + self.place(torch.stack([x, y], -1).flatten(0, 1))
        return out


class SequenceNet(nn.Module):
    """A decoder with its configuration and, for an observed image, an encoder."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.config = config
        self.vocabulary = Vocabulary(config.levels, config.opcodes)
        self.encoder = ImageEncoder(config) if config.observation != "none" else None
        self.decoder = _decoder(config)

    def context(self, image: Tensor) -> Tensor | None:
        """(B, C, C) → what the decoder looks at, (B, S, E), or nothing."""
        return None if self.encoder is None else self.encoder(image)

    def forward(self, batch: SequenceBatch) -> Losses:
        """Teacher-forced negative log likelihood of each sample (equation 3), nats."""
        tokens, logits, counted = self._logits(batch)
        nats = functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten(), reduction="none")
        total = (nats.view(tokens.shape) * counted).sum(1)
        return Losses(total, {}, total.new_zeros(()))

    @torch.inference_mode()
    def scores(self, batch: SequenceBatch) -> Scores:
        """Likelihood, rank and confidence of every token."""
        tokens, logits, counted = self._logits(batch)
        log_probability = logits.float().log_softmax(-1)
        target = log_probability.gather(-1, tokens[..., None])
        rank = (log_probability > target).sum(-1)
        found = Scores(-target[..., 0], rank, log_probability.amax(-1).exp(), counted)
        return found if self.vocabulary.opcodes else _with_opcodes(found, batch.lengths)

    def _logits(self, batch: SequenceBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (B, T), logits (B, T, V) and which tokens count (B, T)."""
        tokens = self.vocabulary.encode(batch.levels, batch.lengths)
        index = torch.arange(tokens.shape[1], device=tokens.device)
        counted = index <= self.vocabulary.per_segment * batch.lengths[:, None]
        return tokens, self.decoder(tokens, self.context(batch.image)), counted


def _decoder(config: SequenceConfig) -> Decoder:
    if config.architecture == MLP:
        return MlpDecoder(config)
    return SegmentDecoder(config) if config.architecture == SEGMENTS else TokenDecoder(config)


def _with_opcodes(scores: Scores, lengths: Tensor) -> Scores:
    """Scores of 4 n + 1 tokens → those of 6 n + 1, opcodes certain (section IV-B5); stops stay stops."""
    batch, length = scores.nats.shape
    segments = length // len(COORDINATES)
    places = torch.arange(segments, device=lengths.device)[:, None] * LENGTH + torch.tensor(
        COORDINATES, device=lengths.device
    )
    target = places.flatten().expand(batch, -1)
    stop = len(COORDINATES) * lengths[:, None]

    def spread(values: Tensor, certain: float) -> Tensor:
        out = values.new_full((batch, LENGTH * segments + 1), certain)
        out = out.scatter(1, target, values[:, :-1])
        # the stop stood where the next x0 would be
        return out.scatter(1, LENGTH * lengths[:, None], values.gather(1, stop))

    index = torch.arange(LENGTH * segments + 1, device=lengths.device)
    return Scores(
        spread(scores.nats, 0.0),
        spread(scores.rank, 0),
        spread(scores.confidence, 1.0),
        index <= LENGTH * lengths[:, None],
    )
