"""Small networks of the paper's family with random weights, and random canonical sequences."""

from __future__ import annotations

import numpy as np
import torch

from floorgent_ros.model.paper.config import (
    MLP,
    NEAR_FIRST,
    SEGMENTS,
    TOKENS,
    UNSEEN,
    SequenceConfig,
    UnseenConfig,
)
from floorgent_ros.model.paper.network import SequenceBatch, SequenceNet

KINDS = {
    "tokens": {"architecture": TOKENS},
    "no opcodes": {"architecture": TOKENS, "opcodes": False},
    "no positions": {"architecture": TOKENS, "positions": False},
    "resnet": {"architecture": TOKENS, "observation": "nearest"},
    "mixer": {"architecture": TOKENS, "observation": "all", "image_encoder": "mixer"},
    "mlp": {"architecture": MLP, "window": 8},
    "segments": {"architecture": SEGMENTS},
    "segments near first": {"architecture": SEGMENTS, "ends": NEAR_FIRST},
    "segments with image": {"architecture": SEGMENTS, "observation": "nearest"},
    "segments with sight": {
        "architecture": SEGMENTS,
        "observation": "nearest",
        "ends": NEAR_FIRST,
        "sight": True,
        "image_cells": 8,
    },
    "unseen": {"architecture": UNSEEN, "observation": "free"},
}


def small_config(kind="tokens", **changes):
    values = {
        "levels": 16,
        "vocabulary": 19,
        "max_segments": 5,
        "observed_segments": 2,
        "image_cells": 32,
        "width": 16,
        "layers": 2,
        "heads": 2,
        "feed": 24,
        "dropout": 0.0,
        "encoder_widths": (4, 8),
        "encoder_blocks": (1, 1),
        "encoder_dropout": 0.0,
        "mixer_layers": 1,
        "mixer_feed": 8,
    }
    family = UnseenConfig if KINDS[kind]["architecture"] == UNSEEN else SequenceConfig
    return family(**(values | KINDS[kind] | changes))


def small_network(kind="tokens", seed=0, scale=0.4, **changes):
    """In evaluation mode, no weight and no gate at zero."""
    torch.manual_seed(seed)
    network = SequenceNet(small_config(kind, **changes))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(scale * torch.randn(parameter.shape))
    return network.eval()


def random_batch(config, lengths, seed=0):
    rng = np.random.default_rng(seed)
    samples = []
    for length in lengths:
        levels = config.frame.ordered(rng.integers(0, config.levels, (4 * length + 4, 4)))[:length]
        samples.append(levels)
    padded = np.zeros((len(samples), max(lengths), 4), np.int64)
    for index, levels in enumerate(samples):
        padded[index, : len(levels)] = levels
    cells = config.image_cells if config.seen else 0
    image = rng.random((len(samples), cells, cells)) < 0.2
    return SequenceBatch(torch.from_numpy(padded), torch.tensor(lengths), torch.from_numpy(image))


def talkative(network):
    """The same network with a low log odds of stopping."""
    decoder = network.decoder
    bias = decoder.stop.bias if hasattr(decoder, "stop") else decoder.out.bias
    with torch.no_grad():
        bias[0] = -4.0
    return network
