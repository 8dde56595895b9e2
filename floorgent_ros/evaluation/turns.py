"""Maps at an angle: protocol E4 on the same buildings, turned in the map frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from floorgent_ros.evaluation.cases import KINDS

FIGURES = ("ratio", "mae_m", "null_mae_m", "falsely_unreachable")


def sweep(evaluate_at: Callable[[float], dict[str, Any]], degrees: Sequence[float]) -> dict[str, Any]:
    """Evaluate at each angle.

    The report: turns, by angle and kind the `FIGURES`; largest_change, by kind the largest relative change of
    the ratio against the first angle.
    """
    turns: dict[str, dict[str, dict[str, float]]] = {}
    for angle in degrees:
        found = evaluate_at(angle)
        turns[f"{angle:g}"] = {kind: {name: found[kind][name] for name in FIGURES} for kind in KINDS}
    first = next(iter(turns.values()))
    change = {
        kind: max(abs(found[kind]["ratio"] / first[kind]["ratio"] - 1) for found in turns.values())
        for kind in KINDS
    }
    return {"turns": turns, "largest_change": change}


def turn_table(report: dict[str, Any]) -> str:
    """The sweep's ratios as text, a column a kind, a line an angle."""
    head = f"{'ratio at':28s}" + "".join(f"{kind:>10s}" for kind in KINDS)
    lines = [
        f"{angle + '°':28s}" + "".join(f"{found[kind]['ratio']:10.3f}" for kind in KINDS)
        for angle, found in report["turns"].items()
    ]
    change = "".join(f"{report['largest_change'][kind]:10.1%}" for kind in KINDS)
    return "\n".join([head, *lines, f"{'largest change':28s}{change}"])
