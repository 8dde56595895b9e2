"""The network's weights, and what it keeps of an image, as the plain arrays that the compiled loop reads.

D trunk width, F its feed-forward width, H heads of d = D / H, L levels, G patches, E patch width, C fine
features of W × W, K key width, P patch side, S places of the coarse map, M = MARKS, Q = CELL_KEY.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from floorgent_ros.model.decoder import CELL_KEY, MARKS, Decoder
from floorgent_ros.model.encoder import UNSHUFFLE, Features
from floorgent_ros.model.trunk import Trunk

Floats = NDArray[np.float32]


class TrunkWeights(NamedTuple):
    """Of a trunk with cross-attention; matrices are (in, out), the transpose of torch's."""

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


class Weights(NamedTuple):
    """Of the decoder; matrices are (in, out), the transpose of torch's."""

    begin: Floats  # (D,)
    coordinates: Floats  # (4, L, D)
    kind_in: Floats  # (KINDS, D)
    pen_in: Floats  # (2 C, D): of a wall's first and last end
    pen_in_bias: Floats  # (D,): of both
    trunk: TrunkWeights
    start_query: Floats  # (D, 2 K + M)
    start_query_bias: Floats
    again_bias: Floats  # (1,)
    cell_in: Floats  # (D + E, D)
    cell_in_bias: Floats
    cell_out: Floats  # (D, P² + Q): logits, and the query of the cell keys
    cell_out_bias: Floats
    cell_embed: Floats  # (P², D)
    kind_pen: Floats  # (C, D)
    kind_pen_bias: Floats
    kind_mix: Floats  # (D, D)
    kind_mix_bias: Floats
    kind_out: Floats  # (D, KINDS)
    kind_out_bias: Floats
    kind_embed: Floats  # (KINDS, D)
    end_query: Floats  # (D, K + M)
    end_query_bias: Floats
    step_bias: Floats  # (KINDS − 1, side)
    end_in: Floats  # (D + E, D)
    end_in_bias: Floats
    end_out: Floats  # (D, P² + Q)
    end_out_bias: Floats
    cell_keys: Floats  # (2, Q, C · UNSHUFFLE²): of first and last ends, from the features of a fine cell
    cell_key_biases: Floats  # (2, Q, UNSHUFFLE²)
    patch_of_rank: NDArray[np.int64]  # (G,)
    rank_of_patch: NDArray[np.int64]  # (G,)
    lines: NDArray[np.int64]  # (4, G, side)


class Memory(NamedTuple):
    """Of an image, as `decoder.Memory`; patches in rank order where marked (r), else in grid order."""

    keys: Floats  # (layers, H, d, S) of the cross-attention
    values: Floats  # (layers, H, S, d)
    patches: Floats  # (G, E)
    pen: Floats  # (W, W, C)
    start_keys: Floats  # (K, G) (r), scaled
    start_bias: Floats  # (G,) (r)
    start_marks: Floats  # (M, G) (r)
    end_keys: Floats  # (G, K), scaled
    end_marks: Floats  # (G, M)


def to_array(tensor: Tensor) -> Floats:
    """A contiguous float32 copy."""
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float32).numpy())


def stacked(tensors: Sequence[Tensor]) -> Floats:
    """Tensors of one shape → (count, …)."""
    return to_array(torch.stack([tensor.detach() for tensor in tensors]))


def matrices(layers: Sequence[nn.Linear]) -> tuple[Floats, Floats]:
    """Layers of one shape → (count, in, out) and (count, out)."""
    return stacked([layer.weight.T for layer in layers]), stacked([layer.bias for layer in layers])


def matrix(*layers: nn.Linear) -> tuple[Floats, Floats]:
    """Layers of one input, side by side: (in, out of all) and (out of all,)."""
    return (
        to_array(torch.cat([layer.weight for layer in layers]).T),
        to_array(torch.cat([layer.bias for layer in layers])),
    )


@torch.inference_mode()
def pack_trunk(trunk: Trunk) -> TrunkWeights:
    """Copy a trunk's weights."""
    layers: list[nn.Module] = list(trunk.layers)

    def named(name: str) -> tuple[Floats, Floats]:
        return matrices([layer.get_submodule(name) for layer in layers])  # type: ignore[misc]

    norms = [list(layer.get_submodule("norms").children()) for layer in layers]
    return TrunkWeights(
        stacked([torch.stack([norm.get_parameter("weight") for norm in row]) for row in norms]),
        stacked([torch.stack([norm.get_parameter("bias") for norm in row]) for row in norms]),
        *named("self_qkv"),
        *named("self_out"),
        *named("cross_q"),
        *named("cross_out"),
        *named("feed.0"),
        *named("feed.2"),
        stacked([layer.get_parameter("gates") for layer in layers]),
        to_array(trunk.norm.weight),
        to_array(trunk.norm.bias),
    )


@torch.inference_mode()
def pack(decoder: Decoder) -> Weights:
    """Copy the decoder's weights."""
    cell_keys, cell_key_biases = _cell_keys(decoder.cell_keys)
    pens = list(decoder.pen_in)
    return Weights(
        to_array(decoder.begin),
        stacked([table.get_parameter("weight") for table in decoder.coordinates]),
        to_array(decoder.kind_in.weight),
        to_array(torch.cat([pen.get_parameter("weight").T for pen in pens])),
        to_array(torch.stack([pen.get_parameter("bias") for pen in pens]).sum(0)),
        pack_trunk(decoder.trunk),
        *matrix(decoder.start_query),
        to_array(decoder.again_bias),
        *matrix(decoder.cell_in),
        *matrix(decoder.cell_out, decoder.cell_query),
        to_array(decoder.cell_embed.weight),
        *matrix(decoder.kind_pen),
        *matrix(decoder.kind_mix),
        *matrix(decoder.kind_out),
        to_array(decoder.kind_embed.weight),
        *matrix(decoder.end_query),
        to_array(decoder.step_bias),
        *matrix(decoder.end_in),
        *matrix(decoder.end_out, decoder.end_cell_query),
        cell_keys,
        cell_key_biases,
        *(np.ascontiguousarray(getattr(decoder.layout, name)) for name in Weights._fields[-3:]),
    )


def _cell_keys(layer: nn.Conv2d) -> tuple[Floats, Floats]:
    """The 1 × 1 convolution to 2 · Q · UNSHUFFLE² channels by their meaning, features before cells."""
    weight = layer.weight[:, :, 0, 0].view(2, CELL_KEY, UNSHUFFLE**2, -1).transpose(2, 3)
    bias = layer.bias
    assert bias is not None  # noqa: S101  (made with one)
    return to_array(weight.flatten(2)), to_array(bias.view(2, CELL_KEY, UNSHUFFLE**2))


@torch.inference_mode()
def remember(decoder: Decoder, features: Features) -> Memory:
    """Everything that depends on the image alone; features of one image, B = 1."""
    patches = features.patches[0] + decoder.patch_place  # (G, E)
    width = decoder.end_query.out_features - MARKS
    ranked = patches[decoder.patch_of_rank]
    start = decoder.start_key.weight @ ranked.T + decoder.start_key.bias[:, None]  # (K + 1 + M, G)
    end = decoder.end_key(patches)  # (G, K + M)
    context = decoder.to_context(features.context[0])  # (S, D)
    keys, values = [], []
    for layer in decoder.trunk.layers:
        cross = layer.get_submodule("cross_kv")(context)  # (S, 2 D)
        key, value = cross.unflatten(-1, (2, decoder.trunk.heads, -1)).unbind(1)  # (S, H, d)
        keys.append(key.permute(1, 2, 0))
        values.append(value.transpose(0, 1))
    return Memory(
        keys=stacked(keys),
        values=stacked(values),
        patches=to_array(patches),
        pen=to_array(features.pen[0].permute(1, 2, 0)),
        start_keys=to_array(start[:width] * decoder.scale),
        start_bias=to_array(start[width]),
        start_marks=to_array(start[width + 1 :]),
        end_keys=to_array(end[:, :width] * decoder.scale),
        end_marks=to_array(end[:, width:]),
    )
