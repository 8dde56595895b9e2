"""Image encoder and decoder of the paper's family as one network: likelihood, and scores token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.network import Losses
from floorgent_ros.model.paper.config import MLP, NEAR_FIRST, SEGMENTS, UNSEEN, SequenceConfig
from floorgent_ros.model.paper.image import Shown
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
    lowest y; (B, 0, 0) for a model without image. given (B,): how many of the first segments are told, not
    asked; None: none. beyond (B, n, 2): as `unseen.beyond`, `unseen.NOT_TOLD` for what is asked, for a
    network that is told it.
    """

    levels: Tensor
    lengths: Tensor
    image: Tensor
    given: Tensor | None = None
    beyond: Tensor | None = None

    def to(self, device: torch.device | str) -> SequenceBatch:
        """Move all tensors."""
        given, beyond = (None if part is None else part.to(device) for part in (self.given, self.beyond))
        return SequenceBatch(
            self.levels.to(device), self.lengths.to(device), self.image.to(device), given, beyond
        )

    @property
    def asked(self) -> Tensor:
        """(B,) how many segments of each sample are not given."""
        return self.lengths if self.given is None else self.lengths - self.given

    @property
    def tokens(self) -> Tensor:
        """How many tokens the samples have in all, whatever a model leaves out: 6 n + 1 each."""
        return (LENGTH * self.asked + 1).sum()

    def counted(self, per_segment: int, count: int) -> Tensor:
        """(B, count) bool: which tokens belong to a sample, its stop included, and are not given."""
        index = torch.arange(count, device=self.lengths.device)
        first = per_segment * (self.lengths - self.asked)[:, None]
        return (index >= first) & (index <= per_segment * self.lengths[:, None])


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
        self.vocabulary = Vocabulary(config.levels, config.opcodes, config.ends == NEAR_FIRST)
        self.encoder = ImageEncoder(config) if config.observation != "none" else None
        self.decoder = _decoder(config)

    def shown(self, image: Tensor, beyond: Tensor | None = None) -> Shown | None:
        """(B, C, C), and (B, k, 2) as `unseen.beyond` → what the decoder looks at, or nothing."""
        return None if self.encoder is None else Shown(image, self.encoder(image), beyond)

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
        return found if self.vocabulary.opcodes else _with_opcodes(found, batch)

    def _logits(self, batch: SequenceBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (B, T), logits (B, T, V) and which tokens count (B, T)."""
        tokens = self.vocabulary.encode(batch.levels, batch.lengths)
        counted = batch.counted(self.vocabulary.per_segment, tokens.shape[1])
        return tokens, self.decoder(tokens, self.shown(batch.image, batch.beyond)), counted


def _decoder(config: SequenceConfig) -> Decoder:
    if config.architecture == MLP:
        return MlpDecoder(config)
    return SegmentDecoder(config) if config.architecture in (SEGMENTS, UNSEEN) else TokenDecoder(config)


def _with_opcodes(scores: Scores, batch: SequenceBatch) -> Scores:
    """Scores of 4 n + 1 tokens → those of 6 n + 1, opcodes certain (section IV-B5); stops stay stops."""
    lengths, (count, length) = batch.lengths, scores.nats.shape
    segments = length // len(COORDINATES)
    places = torch.arange(segments, device=lengths.device)[:, None] * LENGTH + torch.tensor(
        COORDINATES, device=lengths.device
    )
    target = places.flatten().expand(count, -1)
    stop = len(COORDINATES) * lengths[:, None]

    def spread(values: Tensor, certain: float) -> Tensor:
        out = values.new_full((count, LENGTH * segments + 1), certain)
        out = out.scatter(1, target, values[:, :-1])
        # the stop stood where the next x0 would be
        return out.scatter(1, LENGTH * lengths[:, None], values.gather(1, stop))

    return Scores(
        spread(scores.nats, 0.0),
        spread(scores.rank, 0),
        spread(scores.confidence, 1.0),
        batch.counted(LENGTH, LENGTH * segments + 1),
    )
