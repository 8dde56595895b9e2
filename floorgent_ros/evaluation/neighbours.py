"""The nearest-neighbour baseline (section IV-B2): what most often followed the most similar subsequences."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.model.paper.vocabulary import Vocabulary

WINDOW, NEIGHBOURS = 10, 32  # N_w, N_k
BEFORE = 300  # stands before a sequence's first token; no token has this value

Tokens = NDArray[np.int16]


def windows(samples: list[NDArray[np.int64]]) -> tuple[Tokens, Tokens]:
    """All subsequences (M, N_w) of the samples' tokens and the token (M,) that follows each."""
    vocabulary = Vocabulary()
    before, after = [], []
    for levels in samples:
        tokens = vocabulary.encode(torch.from_numpy(levels)[None], torch.tensor([len(levels)]))[0]
        row = np.concatenate([np.full(WINDOW, BEFORE, np.int16), tokens.numpy().astype(np.int16)])
        before.append(np.lib.stride_tricks.sliding_window_view(row, WINDOW)[:-1])
        after.append(row[WINDOW:])
    return np.concatenate(before), np.concatenate(after)


def ranks(known: Tokens, follows: Tokens, asked: Tokens, truth: Tokens, size: int) -> NDArray[np.int64]:
    """(Q,) rank of the true token among those that followed the 32 nearest of (M, N_w) known windows.

    Nearest by Hamming distance; of equally distant ones the earlier are taken. `size`, the number of tokens,
    is the rank of a token that followed none of them. Tokens equally frequent rank by their value.
    """
    return _ranks(known, follows, asked, truth, size)


@compiled
def _ranks(known: Tokens, follows: Tokens, asked: Tokens, truth: Tokens, size: int) -> NDArray[np.int64]:
    count, width = known.shape
    out = np.empty(asked.shape[0], np.int64)
    distance = np.empty(count, np.uint8)
    for q in range(asked.shape[0]):
        held = np.zeros(width + 1, np.int64)
        for m in range(count):
            unequal = 0
            for k in range(width):
                unequal += known[m, k] != asked[q, k]
            distance[m] = unequal
            held[unequal] += 1
        left, last = NEIGHBOURS, 0  # all windows nearer than `last` are in, and `left` at it
        while last < width and held[last] < left:
            left -= held[last]
            last += 1
        votes = np.zeros(size, np.int64)
        for m in range(count):
            if distance[m] < last:
                votes[follows[m]] += 1
            elif distance[m] == last and left > 0:
                votes[follows[m]] += 1
                left -= 1
        own = votes[truth[q]]
        rank = 0
        for token in range(size):
            if votes[token] > own or (votes[token] == own and token < truth[q]):
                rank += 1
        out[q] = rank if own > 0 else size
    return out
