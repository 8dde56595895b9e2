"""The segment decoder's weights, and what it keeps of an observation, as plain arrays for the compiled loop.

D trunk width, F its feed-forward width, H heads of d = D / H, L levels, K key width of ends, R reach of
offsets, S places of the image, W distances; layers, and of four coordinates each, come first. Matrices are
(in, out). The fields of the trunk are those that `compiled_trunk.trunk` reads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floorgent_ros.model.packed import Floats, _array, _matrices, _stack
from floorgent_ros.model.paper.sampling import Seen
from floorgent_ros.model.paper.segments import SegmentDecoder, segment_levels


class SegmentWeights(NamedTuple):
    """Of the decoder."""

    norms: Floats  # (layers, 3, D)
    norm_biases: Floats
    qkv: Floats  # (layers, D, 3 D)
    qkv_bias: Floats
    self_out: Floats  # (layers, D, D)
    self_out_bias: Floats
    cross_q: Floats  # (layers, D, D)
    cross_q_bias: Floats
    cross_out: Floats  # (layers, D, D)
    cross_out_bias: Floats
    feed_in: Floats  # (layers, D, F)
    feed_in_bias: Floats
    feed_out: Floats  # (layers, F, D)
    feed_out_bias: Floats
    gates: Floats  # (layers, 3)
    norm: Floats  # (D,)
    norm_bias: Floats
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
    trunk, copying = decoder.trunk, decoder.copying
    layers: list[nn.Module] = list(trunk.layers)

    def named(name: str) -> tuple[Floats, Floats]:
        return _matrices([layer.get_submodule(name) for layer in layers])  # type: ignore[misc]

    norms = [list(layer.get_submodule("norms").children()) for layer in layers]
    mix = [list(part.children()) for part in decoder.mix]  # norm, linear, ReLU, linear
    query, query_bias = _matrices(list(copying.query))  # type: ignore[arg-type]
    scale = np.float32(query.shape[-1] ** -0.5)
    bias, bias_bias = _matrices(list(copying.bias))  # type: ignore[arg-type]
    position = decoder.position.weight if decoder.position is not None else decoder.distance.weight[:1] * 0
    return SegmentWeights(
        _stack([torch.stack([norm.get_parameter("weight") for norm in row]) for row in norms]),
        _stack([torch.stack([norm.get_parameter("bias") for norm in row]) for row in norms]),
        *named("self_qkv"),
        *named("self_out"),
        *named("cross_q"),
        *named("cross_out"),
        *named("feed.0"),
        *named("feed.2"),
        _stack([layer.get_parameter("gates") for layer in layers]),
        _array(trunk.norm.weight),
        _array(trunk.norm.bias),
        _weights(decoder.coordinates),
        _array(decoder.distance.weight),
        _array(position),
        _array(decoder.stop.weight[0]),
        _array(decoder.stop.bias),
        _weights(decoder.drawn),
        *_norms([row[0] for row in mix]),
        *_matrices([row[1] for row in mix]),  # type: ignore[misc]
        *_matrices([row[3] for row in mix]),  # type: ignore[misc]
        *_norms(list(decoder.norms)),
        *_matrices(list(decoder.out)),  # type: ignore[arg-type]
        query * scale,
        query_bias * scale,
        np.ascontiguousarray(bias[..., 0]),
        np.ascontiguousarray(bias_bias[:, 0]),
        _array(copying.same),
        _array(copying.key.weight.T),
        _array(copying.key.bias),
        _weights(copying.point),
        _array(copying.radius.weight),
        *_matrices(list(copying.offset)),  # type: ignore[arg-type]
    )


def _weights(tables: nn.ModuleList) -> Floats:
    return _stack([table.get_parameter("weight") for table in tables])


def _norms(norms: list[nn.Module]) -> tuple[Floats, Floats]:
    return (
        _stack([norm.get_parameter("weight") for norm in norms]),
        _stack([norm.get_parameter("bias") for norm in norms]),
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
        keys=_stack([keys[0].transpose(1, 2) for keys, _ in cross]),
        values=_stack([values[0] for _, values in cross]),
        own_keys=_stack([keys[0].transpose(1, 2) for keys, _ in cache.room]),
        own_values=_stack([values[0] for _, values in cache.room]),
        end_keys=_array(ends.keys[0]),
        end_levels=_integers(ends.levels[0]),
        last=_integers(levels[0, -1]),
    )


def _integers(tensor: Tensor) -> NDArray[np.int64]:
    return np.ascontiguousarray(tensor.cpu().numpy())
