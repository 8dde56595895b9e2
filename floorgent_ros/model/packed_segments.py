"""The segment decoder's weights, and what it keeps of an observation, as plain arrays for the compiled loop.

D trunk width, F its feed-forward width, H heads of d = D / H, L levels, K key width of ends, R reach of
offsets, S places of the image, W distances, C all that a coordinate asks in `ASKED`; layers, and of four
coordinates each, come first. Matrices are (in, out).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from floorgent_ros.model.packed import Floats, TrunkWeights, matrices, matrix, pack_trunk, stacked, to_array
from floorgent_ros.model.paper.copying import KEY, Copying
from floorgent_ros.model.paper.corners import DIRECTIONS, before_next
from floorgent_ros.model.paper.ordering import BINS, RELATIONS, USES, bins
from floorgent_ros.model.paper.sampling import Seen
from floorgent_ros.model.paper.segments import SegmentDecoder, segment_levels
from floorgent_ros.model.paper.vocabulary import STEPS

Integers = NDArray[np.int64]

_ASKED = {
    "query": KEY,
    "bias": 1,
    "levels": BINS,
    "uses": USES,
    "leaving": DIRECTIONS,
    "ends": BINS,
    "relation": RELATIONS,
    "stride_query": KEY,
    "stride_bias": 1,
}
_PLACES = np.cumsum([0, *_ASKED.values()]).tolist()
ASKED = {name: slice(*_PLACES[i : i + 2]) for i, name in enumerate(_ASKED)}  # columns of all that is asked
ASKED_WIDTH = _PLACES[-1]


class SegmentWeights(NamedTuple):
    """Of the decoder."""

    trunk: TrunkWeights
    coordinates: Floats  # (4, L, D)
    distance: Floats  # (W, D)
    position: Floats  # (most segments + 1, D)
    stop: Floats  # (D,)
    stop_bias: Floats  # (1,)
    drawn: Floats  # (3, L, D)
    mix_norm: Floats  # (4, D)
    mix_norm_bias: Floats
    mix_in: Floats  # (4, D, F)
    mix_in_bias: Floats
    mix_out: Floats  # (4, F, D)
    mix_out_bias: Floats
    out_norm: Floats  # (4, D)
    out_norm_bias: Floats
    out: Floats  # (4, D, L)
    out_bias: Floats
    asked: Floats  # (4, D, C)
    asked_bias: Floats
    same: Floats  # (2,)
    told: Floats  # (D, 6 K): keys, strides and values of both ends of a wall
    told_bias: Floats
    point: Floats  # (2, L, K)
    radius: Floats  # (W, K)
    offset: Floats  # (2, D, 2 R + 1)
    offset_bias: Floats
    stride_size: Floats  # (2, 2 R + 1, K)
    stride_same: Floats  # (1,)
    pen: Floats  # (K + directions, D)
    pen_bias: Floats
    bins: Integers  # (2 · FINE · L,) as `ordering.bins`


class SegmentMemory(NamedTuple):
    """Of an observation: the image's keys and values, and the walls told before the last of them."""

    keys: Floats  # (layers, H, d, S) of the cross-attention
    values: Floats  # (layers, H, S, d)
    own_keys: Floats  # (layers, H, d, k) of the self-attention: start and k − 1 walls
    own_values: Floats  # (layers, H, k, d)
    end_levels: Integers  # (2 (k − 1), 2)
    end_keys: Floats  # (2 (k − 1), K)
    end_strides: Floats
    end_values: Floats
    end_direction: Integers  # (2 (k − 1),)
    end_uses: Integers  # (2 (k − 1),)
    end_leaving: Floats  # (2 (k − 1), directions): how many walls leave where the end is
    last: Integers  # (4,) the last wall told


@torch.inference_mode()
def pack_segments(decoder: SegmentDecoder) -> SegmentWeights:
    """Copy the decoder's weights."""
    copying, ordering = decoder.copying, decoder.copying.ordering
    mix = [list(part.children()) for part in decoder.mix]  # norm, linear, ReLU, linear
    position = decoder.position.weight if decoder.position is not None else decoder.distance.weight[:1] * 0
    return SegmentWeights(
        pack_trunk(decoder.trunk),
        _weights(decoder.coordinates),
        to_array(decoder.distance.weight),
        to_array(position),
        to_array(decoder.stop.weight[0]),
        to_array(decoder.stop.bias),
        _weights(decoder.drawn),
        *_norms([row[0] for row in mix]),
        *matrices([row[1] for row in mix]),  # type: ignore[misc]
        *matrices([row[3] for row in mix]),  # type: ignore[misc]
        *_norms(list(decoder.norms)),
        *matrices(list(decoder.out)),  # type: ignore[arg-type]
        *_asked(copying),
        to_array(copying.same),
        *matrix(copying.key, copying.stride.key, copying.pen.value),
        _weights(copying.point),
        to_array(copying.radius.weight),
        *matrices(list(copying.offset)),  # type: ignore[arg-type]
        _weights(copying.stride.size),
        to_array(copying.stride.same),
        *matrix(copying.pen.out),
        _integers(bins(ordering.count, torch.device("cpu"))),
    )


def _asked(copying: Copying) -> tuple[Floats, Floats]:
    """What each coordinate asks of earlier ends, ways and distances, as one matrix: `ASKED` says what."""
    ordering, stride = copying.ordering, copying.stride
    weights, biases = [], []
    for step in range(STEPS):
        second = step - 2  # of the second end's coordinates
        parts: dict[str, tuple[Any, float] | None] = {
            "query": (copying.query[step], KEY**-0.5),
            "bias": (copying.bias[step], 1.0),
            "levels": (ordering.levels[step], 1.0),
            "uses": (ordering.uses[step], 1.0),
            "leaving": (ordering.leaving[step], 1.0),
            "ends": (ordering.ends[step // 2], 1.0) if step % 2 == 0 else None,
            "relation": (ordering.relation, 1.0) if step == 2 else None,
            "stride_query": (stride.query[second], KEY**-0.5) if second >= 0 else None,
            "stride_bias": (stride.bias[second], 1.0) if second >= 0 else None,
        }
        weight = np.zeros((ordering.relation.in_features, ASKED_WIDTH), np.float32)
        bias = np.zeros(ASKED_WIDTH, np.float32)
        for name, part in parts.items():
            if part is not None:
                linear, scale = part
                columns, row = matrix(linear)
                weight[:, ASKED[name]], bias[ASKED[name]] = columns * scale, row * scale
        weights.append(weight)
        biases.append(bias)
    return np.stack(weights), np.stack(biases)


def _weights(tables: nn.ModuleList) -> Floats:
    return stacked([table.get_parameter("weight") for table in tables])


def _norms(norms: list[nn.Module]) -> tuple[Floats, Floats]:
    return (
        stacked([norm.get_parameter("weight") for norm in norms]),
        stacked([norm.get_parameter("bias") for norm in norms]),
    )


@torch.inference_mode()
def remember_told(decoder: SegmentDecoder, seen: Seen) -> SegmentMemory:
    """Put all walls told but the last through the trunk, once for all completions; one observation, B = 1."""
    levels = segment_levels(seen.prompt)  # (1, k, 4)
    told = levels[:, :-1]
    cache = decoder.trunk.cache(1, told.shape[1] + 1)
    cross = seen.memory.cross if seen.memory else []
    beyond = seen.memory.beyond if seen.memory else None
    ends = decoder.copying.ends(told, decoder.states(told, cross, cache, beyond)[:, 1:])
    before = before_next(ends, decoder.copying.count)
    leaving = before.same[0] @ one_hot(before.direction[0], DIRECTIONS).to(before.same.dtype)
    return SegmentMemory(
        keys=stacked([keys[0].transpose(1, 2) for keys, _ in cross]),
        values=stacked([values[0] for _, values in cross]),
        own_keys=stacked([keys[0].transpose(1, 2) for keys, _ in cache.room]),
        own_values=stacked([values[0] for _, values in cache.room]),
        end_levels=_integers(ends.levels[0]),
        end_keys=to_array(ends.keys[0]),
        end_strides=to_array(ends.strides[0]),
        end_values=to_array(ends.values[0]),
        end_direction=_integers(before.direction[0]),
        end_uses=_integers(before.uses[0, 0]),
        end_leaving=to_array(leaving),
        last=_integers(levels[0, -1]),
    )


def _integers(tensor: Tensor) -> Integers:
    return np.ascontiguousarray(tensor.cpu().numpy())
