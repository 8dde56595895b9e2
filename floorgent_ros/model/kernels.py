"""The arithmetic of the compiled decode loop: small matrix products, attention and the nucleus draw.

All arrays are float32 and contiguous where nothing else is said. Every function treats its rows one by one
in the same order of operations, so what a sequence draws does not depend on which others it is drawn with.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled, compiled_with

Floats = NDArray[np.float32]

ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
EPSILON = np.float32(1e-5)  # torch's, in layer norm
LOG2_E = np.float32(1.44269504088896341)
# ln 2 in two parts, the first with few bits, so that n ln 2 is exact for the integers n that occur
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# least-squares polynomial of (exp(f) − 1 − f) / f² for |f| ≤ ln 2 / 2, about 1e-7 (Cephes' expf)
E0, E1, E2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
E3, E4, E5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
LANES = 32  # floats that a vector loop takes at a time, unrolled
FAR_BELOW = np.float32(1e30)  # a score so low that its exponential adds nothing
EXPONENT_LIMIT = np.float32(80.0)  # exp of more is cut to exp(80): what fits in float32, its inverse too


@compiled_with("contract")
def accumulate(x: Floats, weight: Floats, out: Floats) -> None:
    """Out (n, M) += x (n, K) weight (≥ K, M).

    Eight rows of the weight at a time stay in the first-level cache for all n rows of x, and the innermost
    loop runs along them, which is what a compiler turns into vector instructions.
    """
    rows, depth, width = x.shape[0], x.shape[1], out.shape[1]
    whole = depth // 8 * 8
    for k in range(0, whole, 8):
        for r in range(rows):
            a0, a1, a2, a3 = x[r, k], x[r, k + 1], x[r, k + 2], x[r, k + 3]
            a4, a5, a6, a7 = x[r, k + 4], x[r, k + 5], x[r, k + 6], x[r, k + 7]
            for j in range(width):
                out[r, j] = (
                    out[r, j]
                    + a0 * weight[k, j]
                    + a1 * weight[k + 1, j]
                    + a2 * weight[k + 2, j]
                    + a3 * weight[k + 3, j]
                    + a4 * weight[k + 4, j]
                    + a5 * weight[k + 5, j]
                    + a6 * weight[k + 6, j]
                    + a7 * weight[k + 7, j]
                )
    for k in range(whole, depth):
        for r in range(rows):
            a0 = x[r, k]
            for j in range(width):
                out[r, j] = out[r, j] + a0 * weight[k, j]


@compiled_with("contract")
def linear(x: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    """Out (n, M) = x (n, K) weight (K, M) + bias (M,)."""
    for r in range(x.shape[0]):
        for j in range(out.shape[1]):
            out[r, j] = bias[j]
    accumulate(x, weight, out)


@compiled_with("contract", "reassoc", "nsz")
def dot(a: Floats, b: Floats) -> np.float32:
    """The product of two vectors of one length."""
    total = ZERO
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@compiled_with("contract", "reassoc", "nsz")
def normalise(x: Floats, weight: Floats, bias: Floats, out: Floats) -> None:
    """Layer norm of each row of x (n, D) into out (n, D)."""
    rows, width = x.shape
    inverse = ONE / np.float32(width)
    for r in range(rows):
        total = ZERO
        for j in range(width):
            total += x[r, j]
        mean = total * inverse
        squares = ZERO
        for j in range(width):
            apart = x[r, j] - mean
            squares += apart * apart
        scale = ONE / np.sqrt(squares * inverse + EPSILON)
        for j in range(width):
            out[r, j] = (x[r, j] - mean) * scale * weight[j] + bias[j]


@compiled
def add_scaled(x: Floats, factor: np.float32, y: Floats) -> None:
    """X (n, D) += factor · y (n, D)."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] += factor * y[r, j]


@compiled
def rectify(x: Floats) -> None:
    """X (n, D) becomes max(x, 0)."""
    for r in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[r, j] = max(x[r, j], ZERO)


@compiled_with("contract")
def exponentials(x: Floats, powers: NDArray[np.int32]) -> None:
    """X (n,) becomes exp(x), for |x| up to 80, beyond which it is cut; powers (n,) is scratch.

    exp(x) = 2ⁿ exp(f) with f = x − n ln 2. A loop without calls, which becomes vector instructions.
    """
    for j in range(x.shape[0]):
        value = min(max(x[j], -EXPONENT_LIMIT), EXPONENT_LIMIT)
        n = np.floor(value * LOG2_E + HALF)
        f = value - n * LN2_HIGH - n * LN2_LOW
        series = ((((E0 * f + E1) * f + E2) * f + E3) * f + E4) * f + E5
        x[j] = series * f * f + f + ONE
        powers[j] = (np.int32(n) + np.int32(127)) << np.int32(23)  # the bits of 2ⁿ
    scale = powers.view(np.float32)
    for j in range(x.shape[0]):
        x[j] *= scale[j]


@compiled_with("contract", "reassoc", "nsz", "nnan")
def soften(scores: Floats, powers: NDArray[np.int32]) -> np.float32:
    """Scores (n,) become exp(scores − their maximum); the sum of that."""
    highest = scores[0]
    for j in range(scores.shape[0]):
        highest = max(highest, scores[j])
    for j in range(scores.shape[0]):
        scores[j] -= highest
    exponentials(scores, powers)
    total = ZERO
    for j in range(scores.shape[0]):
        total += scores[j]
    return total


@compiled_with("contract")
def attend(
    query: Floats, keys: Floats, values: Floats, scores: Floats, powers: NDArray[np.int32], out: Floats
) -> None:
    """One head's softmax attention: out (n, d) for query (n, d), keys (d, ≥ S) and values (≥ S, d).

    The query is scaled already. scores (n, S) and powers (S,) are
    scratch.
    """
    for r in range(query.shape[0]):
        for j in range(scores.shape[1]):
            scores[r, j] = ZERO
    accumulate(query, keys, scores)
    for r in range(query.shape[0]):
        inverse = ONE / soften(scores[r], powers)
        for j in range(scores.shape[1]):
            scores[r, j] *= inverse
        for j in range(out.shape[1]):
            out[r, j] = ZERO
    accumulate(scores, values, out)


@compiled_with("contract")
def attend_first(
    query: Floats,
    keys: Floats,
    values: Floats,
    count: int,
    scores: Floats,
    powers: NDArray[np.int32],
    out: Floats,
) -> None:
    """As `attend` of one query (1, d) to the first `count` of keys (d, T) and values (T, d).

    The scores' length is rounded up to whole vector instructions. scores and powers (≥ T,) are scratch.
    """
    padded = min(keys.shape[1], (count + LANES - 1) // LANES * LANES)
    row = scores[:padded].reshape(1, padded)
    row[0] = ZERO
    accumulate(query, keys, row)
    for j in range(count, padded):
        row[0, j] = -FAR_BELOW
    inverse = ONE / soften(row[0], powers[:padded])
    used = scores[:count].reshape(1, count)
    for j in range(count):
        used[0, j] *= inverse
    out[0] = ZERO
    accumulate(used, values, out)


@compiled
def select(values: NDArray[np.float64], index: NDArray[np.int64], mass: float) -> tuple[int, float]:
    """Where in the order of falling values their running sum first exceeds `mass`, without sorting all.

    values (n,) > 0, of equal ones the lower index (n,) comes first. Returns the place k, the last where the
    sum never does, and the sum before it. Both arrays are reordered: what comes before k in the order stands
    before k, and the element itself at k.
    """
    low, high, before = 0, values.shape[0], 0.0
    while high - low > 1:
        middle = (low + high) // 2
        pivot, name = values[middle], index[middle]
        values[middle], index[middle] = values[high - 1], index[high - 1]
        place, left = low, 0.0
        for i in range(low, high - 1):
            value, other = values[i], index[i]
            if value > pivot or (value == pivot and other < name):
                values[i], index[i] = values[place], index[place]
                values[place], index[place] = value, other
                left += value
                place += 1
        values[high - 1], index[high - 1] = values[place], index[place]
        values[place], index[place] = pivot, name
        if before + left > mass:
            high = place
        elif before + left + pivot > mass:
            return place, before + left
        else:
            if place == high - 1:
                return place, before + left
            low, before = place + 1, before + left + pivot
    return low, before


@compiled
def draw(
    weights: Floats, top_p: float, uniform: float, values: NDArray[np.float64], index: NDArray[np.int64]
) -> int:
    """Nucleus sampling: an index of weights (n,) ≥ 0, which need not sum to 1, by inverse transform.

    The order is that of falling weights, as in `sampling.Nucleus.pick`. values and index (≥ n,) are scratch.
    """
    total = 0.0
    for i in range(weights.shape[0]):
        total += weights[i]
    # all that weigh no more than this together weigh no more than what the nucleus leaves out
    least = (1.0 - top_p) * total / weights.shape[0] * (1.0 - 1e-9)
    count = 0
    for i in range(weights.shape[0]):
        if weights[i] > least:
            values[count], index[count] = weights[i], i
            count += 1
    # a share that equals top_p but for rounding is reached
    last, before = select(values[:count], index[:count], top_p * total * (1.0 - 1e-9))
    kept = before + values[last]
    chosen, _ = select(values[: last + 1], index[: last + 1], uniform * kept)
    return index[chosen]
