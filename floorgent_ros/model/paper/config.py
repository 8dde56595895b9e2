"""What a checkpoint of the paper's family says of its network."""

from __future__ import annotations

from dataclasses import dataclass

from floorgent_ros.errors import ConfigError
from floorgent_ros.geometry.canonical import LONGEST_M, SequenceFrame
from floorgent_ros.geometry.grid import WINDOW_M

TOKENS, MLP, SEGMENTS = "floorgent-tokens-1", "floorgent-mlp-1", "floorgent-segments-3"
ARCHITECTURES = (TOKENS, MLP, SEGMENTS)
UNSEEN = "floorgent-unseen-2"
OBSERVATIONS = ("none", "nearest", "all")
ENCODERS = ("resnet", "mixer")
LEFT_FIRST, NEAR_FIRST = "left-first", "near-first"
# Fields that older checkpoints do not name, and what they are there.
LATER = {"ends": LEFT_FIRST, "sight": False}
LATER_UNSEEN = LATER | {"asked": "all", "beyond": False, "joined": False}
ASKED = ("all", "touching")
OPCODES = 3  # stop, move, line


@dataclass(frozen=True)
class SequenceConfig:
    """Configuration of `SequenceNet`; the defaults are the paper's (section IV-A, method notes).

    architecture: the token decoder (appendix A), the equivalent MLP (appendix B) or the decoder of one
    step a segment. ends: which of a segment's ends stands first, the left one as in III-D or the one nearer
    to the viewpoint. observation: no image, one of the `observed_segments` nearest segments (IV-D), or one of
    all segments. sight: whether the decoder of one step a segment is told what the image shows at each level
    (`sight.py`), beside cross-attention. vocabulary: three opcodes and the levels. opcodes, positions:
    whether the sequence holds opcode tokens and the embedding the triplet's position; false are the
    ablations of IV-B. window: tokens that the MLP sees. encoder_*: widths, blocks of the ResNet and dropout
    of either encoder; mixer_*: of the MLP Mixer.
    """

    architecture: str = TOKENS
    observation: str = "none"
    sight: bool = False
    image_encoder: str = "resnet"
    order: str = "nearest-first"
    ends: str = LEFT_FIRST
    levels: int = 256
    vocabulary: int = 259
    extent_m: float = SequenceFrame.extent_m
    horizon_m: float = SequenceFrame.horizon_m
    max_segments: int = SequenceFrame.max_segments
    observed_segments: int = 25
    image_cells: int = 128
    opcodes: bool = True
    positions: bool = True
    width: int = 512
    layers: int = 6
    heads: int = 8
    feed: int = 512
    dropout: float = 0.6
    window: int = 20
    encoder_widths: tuple[int, int] = (16, 512)
    encoder_blocks: tuple[int, int] = (2, 4)
    encoder_dropout: float = 0.1
    mixer_layers: int = 6
    mixer_patch: int = 8
    mixer_feed: int = 256

    def __post_init__(self) -> None:
        for name, choices in self.choices.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} = {getattr(self, name)!r}: use one of {', '.join(choices)}")
        if self.vocabulary != self.levels + OPCODES:
            raise ConfigError(
                f"vocabulary = {self.vocabulary}: use levels + {OPCODES} = {self.levels + OPCODES}"
            )
        if self.architecture != TOKENS and not self.opcodes:
            raise ConfigError(f"opcodes = false: only with architecture {TOKENS}")
        if self.sight and (self.architecture != SEGMENTS or self.observation == "none"):
            raise ConfigError(f"sight = true: only with architecture {SEGMENTS} and an observation")
        if self.architecture == MLP and self.observation != "none":
            raise ConfigError(
                f"observation = {self.observation!r}: the MLP of appendix B takes no image; use none"
            )
        if self.width % self.heads:
            raise ConfigError(f"width = {self.width}: use a multiple of heads = {self.heads}")

    @property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """What the settings with a name for a value can be."""
        return {
            "architecture": ARCHITECTURES,
            "observation": OBSERVATIONS,
            "image_encoder": ENCODERS,
            "order": ("nearest-first",),
            "ends": (LEFT_FIRST, NEAR_FIRST),
        }

    @property
    def frame(self) -> SequenceFrame:
        """Quantisation and horizon."""
        return SequenceFrame(self.levels, self.horizon_m, self.extent_m, self.max_segments)

    @property
    def longest_m(self) -> float:
        """Length of the longest segment."""
        return LONGEST_M

    @property
    def plain_stop(self) -> bool:
        """Whether stop is drawn as often as it is likely; else the nucleus cuts it like any other token.

        A wall is one of many chances to stop: what is unlikely at each must not be cut.
        """
        return self.architecture == UNSEEN

    @property
    def seen(self) -> int:
        """How many of the nearest segments the image shows."""
        return {"none": 0, "nearest": self.observed_segments, "all": self.max_segments}[self.observation]


@dataclass(frozen=True)
class UnseenConfig(SequenceConfig):
    """One step a wall after the walls that a robot has seen: the wide setting, in the same sequences' form.

    A sequence begins with the nearest `observed_segments` seen walls, which are given, and goes on with the
    unseen ones, both nearest first; all of them are those of `geometry.segments`, on the window's cells. The
    image shows where it was seen free. asked: all unseen walls, or those that touch a seen one. beyond:
    whether the network is told how far the unknown reaches beyond each end of a seen wall. joined: whether
    unseen walls reach to the seen ones that they go on or meet, so that their ends can be copied.
    """

    architecture: str = UNSEEN
    observation: str = "free"
    asked: str = "all"
    beyond: bool = False
    joined: bool = False
    ends: str = NEAR_FIRST
    extent_m: float = WINDOW_M
    horizon_m: float = WINDOW_M / 2
    max_segments: int = 320
    observed_segments: int = 64
    image_cells: int = 64
    positions: bool = False
    width: int = 192
    layers: int = 4
    heads: int = 4
    feed: int = 384
    dropout: float = 0.0
    encoder_widths: tuple[int, int] = (16, 128)
    encoder_blocks: tuple[int, int] = (1, 1)
    encoder_dropout: float = 0.0

    @property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """One architecture and observation."""
        return super().choices | {"architecture": (UNSEEN,), "observation": ("free",), "asked": ASKED}

    @property
    def longest_m(self) -> float:
        """Walls are not subdivided."""
        return self.extent_m

    @property
    def seen(self) -> int:
        """How many seen walls are told."""
        return self.observed_segments
