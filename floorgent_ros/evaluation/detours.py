"""How much longer ways are than with the unseen taken for free: in truth, and in each completion by itself.

The median of completions can only be as long as ways are in half of them. Completions that leak, or that
shut instead of leading round, show here, whatever the error of the median is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.assumptions import saturated
from floorgent_ros.geometry.distance import distance_fields

ABOVE_M = (0.2, 1.0, 3.0, 8.0)
AWAY_M = ((5.0, 10.0), (10.0, 15.0), (15.0, 25.0))  # by the distance with the unseen taken for free


@dataclass(frozen=True, eq=False)
class Detours:
    """One case's counts: cells (R,) by `AWAY_M`; true and drawn (R, T), above each of `ABOVE_M`.

    drawn: the mean over completions. What a completion does not reach counts as 40 m away.
    """

    cells: NDArray[np.float64]
    true: NDArray[np.float64]
    drawn: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        null: NDArray[np.float64],
        truth: NDArray[np.float64],
        blocked: NDArray[np.bool_],
        counted: NDArray[np.bool_],
    ) -> Detours:
        """Of the counted (H, W) bool cells; null, truth (C,) in them, saturated, m; blocked (N, H, W)."""
        true = truth - null
        drawn = saturated(distance_fields(blocked))[:, counted] - null
        rings = [(null >= low) & (null < high) for low, high in AWAY_M]
        return cls(
            np.array([ring.sum() for ring in rings], float),
            np.array([[(true[ring] > above).sum() for above in ABOVE_M] for ring in rings], float),
            np.array(
                [
                    [(drawn[:, ring] > above).sum() / max(len(drawn), 1) for above in ABOVE_M]
                    for ring in rings
                ],
                float,
            ),
        )


def shares(detours: list[Detours]) -> dict[str, dict[str, list[float]]]:
    """By distance: the shares of cells with a detour above each of `ABOVE_M`, true and drawn."""
    cells, true, drawn = (
        sum((getattr(one, name) for one in detours), np.zeros(1)) for name in ("cells", "true", "drawn")
    )
    return {
        f"{low:.0f}-{high:.0f} m": {
            "true": (true[index] / max(cells[index], 1)).tolist(),
            "drawn": (drawn[index] / max(cells[index], 1)).tolist(),
        }
        for index, (low, high) in enumerate(AWAY_M)
    }


def table(found: dict[str, Any], label: int) -> list[str]:
    """Lines of `shares` of each kind, names `label` columns wide."""
    lines = [f"{'share of ways longer by more than':{label}s}" + "".join(f"{a:8g} m" for a in ABOVE_M)]
    for kind, by_distance in found.items():
        for away, of in by_distance.items():
            for name, values in of.items():
                title = f"{kind}, {away} away, {name}"
                lines.append(f"{title:{label}s}" + "".join(f"{value:10.3f}" for value in values))
    return lines
