"""An image on its way into a decoder: what the decoder is shown, and what it remembers of it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from floorgent_ros.model.trunk import KeyValue, Trunk


@dataclass
class Shown:
    """Images (B, C, C) bool, row 0 = lowest y, and the encoder's vectors (B, S, E).

    beyond: (B, k, 2) as `unseen.beyond` of the first k segments, for a network that is told it.
    """

    image: Tensor
    vectors: Tensor
    beyond: Tensor | None = None

    def copied(self, times: int) -> Shown:
        """`times` copies of each, side by side."""
        beyond = None if self.beyond is None else self.beyond.repeat_interleave(times, 0)
        image, vectors = (part.repeat_interleave(times, 0) for part in (self.image, self.vectors))
        return Shown(image, vectors, beyond)


@dataclass
class Memory:
    """What drawing needs of images, once an image: the image, and by layer what cross-attention looks at.

    image: (B, C, C) bool. cross: keys and values (B, heads, S, E / heads). beyond: as in `Shown`.
    """

    image: Tensor
    cross: list[KeyValue]
    beyond: Tensor | None = None


def cross_of(trunk: Trunk, shown: Shown | None) -> list[KeyValue] | None:
    """A trunk's keys and values of what is shown, if anything is."""
    return None if shown is None else trunk.context(shown.vectors)


def remembered(trunk: Trunk, shown: Shown | None) -> Memory | None:
    """What drawing needs of what is shown, if anything is."""
    return None if shown is None else Memory(shown.image, trunk.context(shown.vectors), shown.beyond)
