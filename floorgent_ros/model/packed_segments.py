"""The segment decoder's weights, and what it keeps of an observation, as plain arrays for the compiled loop.

D trunk width, F its feed-forward width, H heads of d = D / H, L levels, K key width of ends, R reach of
offsets, S places of the image, W distances; layers, and of four coordinates each, come first. Matrices are
(in, out).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floorgent_ros.model.packed import Floats, TrunkWeights, matrices, pack_trunk, stacked, to_array
from floorgent_ros.model.paper.sampling import Seen
from floorgent_ros.model.paper.segments import SegmentDecoder, segment_levels


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
    query: Floats  # (4, D, K), scaled
    query_bias: Floats
    copy_bias: Floats  # (4, D)
    copy_bias_bias: Floats  # (4,)
    same: Floats  # (2,)
    key: Floats  # (D, 2 K)
    key_bias: Floats
    point: Floats  # (2, L, K)
    radius: Floats  # (W, K)
    offset: Floats  # (4 − first, D, 2 R + 1)
    offset_bias: Floats


class SegmentMemory(NamedTuple):
    """Of an observation: the image's keys and values, and the walls told before the last of them."""

    keys: Floats  # (layers, H, d, S) of the cross-attention
    values: Floats  # (layers, H, S, d)
    own_keys: Floats  # (layers, H, d, k) of the self-attention: start and k − 1 walls
    own_values: Floats  # (layers, H, k, d)
    end_keys: Floats  # (2 (k − 1), K)
    end_levels: NDArray[np.int64]  # (2 (k − 1), 2)
    last: NDArray[np.int64]  # (4,) the last wall told


@torch.inference_mode()
def pack_segments(decoder: SegmentDecoder) -> SegmentWeights:
    """Copy the decoder's weights."""
    copying = decoder.copying
    mix = [list(part.children()) for part in decoder.mix]  # norm, linear, ReLU, linear
    query, query_bias = matrices(list(copying.query))  # type: ignore[arg-type]
    scale = np.float32(query.shape[-1] ** -0.5)
    bias, bias_bias = matrices(list(copying.bias))  # type: ignore[arg-type]
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
        query * scale,
        query_bias * scale,
        np.ascontiguousarray(bias[..., 0]),
        np.ascontiguousarray(bias_bias[:, 0]),
        to_array(copying.same),
        to_array(copying.key.weight.T),
        to_array(copying.key.bias),
        _weights(copying.point),
        to_array(copying.radius.weight),
        *matrices(list(copying.offset)),  # type: ignore[arg-type]
    )


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
    ends = decoder.copying.ends(told, decoder.states(told, seen.cross, cache)[:, 1:])
    cross = seen.cross or []
    return SegmentMemory(
        keys=stacked([keys[0].transpose(1, 2) for keys, _ in cross]),
        values=stacked([values[0] for _, values in cross]),
        own_keys=stacked([keys[0].transpose(1, 2) for keys, _ in cache.room]),
        own_values=stacked([values[0] for _, values in cache.room]),
        end_keys=to_array(ends.keys[0]),
        end_levels=_integers(ends.levels[0]),
        last=_integers(levels[0, -1]),
    )


def _integers(tensor: Tensor) -> NDArray[np.int64]:
    return np.ascontiguousarray(tensor.cpu().numpy())
