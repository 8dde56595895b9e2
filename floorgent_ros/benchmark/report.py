"""The measured numbers as text."""

from __future__ import annotations

from typing import Any

from floorgent_ros.benchmark.pipeline import STAGES


def text(report: dict[str, Any]) -> str:
    """The table that people read, Markdown as in docs/results.md."""
    machine, stages = report["machine"], report["stages"]
    where = f"{machine['processor']}, {machine['cores']} cores, load {machine['load']}"
    how = f"{machine['device']}, {machine['precision']}, {machine['threads']} threads, {machine['allocator']}"
    height, width = report["map_cells"]
    drawn = max(report["completions"], report["candidates"])
    kept = f"{report['completions']} completions" + (
        f" kept of {drawn}" if drawn > report["completions"] else ""
    )
    walls = f"{kept}, {report['walls_a_completion']:.0f} walls on average"
    lines = [
        f"model     {report['model']}",
        f"machine   {where}; {how}",
        f"case      {walls}, map {width} x {height}, peak memory {report['peak_mib']:.0f} MiB",
        "",
        "| ms | median | 95 % |",
        "|---|---|---|",
    ]
    others = [name for name in stages if name not in STAGES and not name.startswith("end to end")]
    others += [name for name in stages if name.startswith("end to end")]
    order = [name for name in (*STAGES, *others) if name in stages]
    lines += [_row(name, stages[name]) for name in order]
    first, last = report["after_warm_up"][0], report["after_warm_up"][-1]
    lines += ["", f"first prediction after warm-up: {_both(first)}"]
    lines += [f"prediction {len(report['after_warm_up'])} after warm-up: {_both(last)}"]
    lines += _compared("the same, done otherwise", report["straightforward"])
    lines += _compared("peers, one map", report["peers"])
    lines += [""] + [f"{name}: {value:.1f} times" for name, value in report["ratios"].items()]
    lines += [f"{name}: {note}" for name, note in report["notes"].items()]
    if "full_size" in report:
        whole = report["full_size"]
        lines += _compared("the paper's token model at full size", whole["times"])
        lines += ["", whole["note"]] + [
            f"{name}: {value:.1f} times" for name, value in whole["ratios"].items()
        ]
    if "curves" in report:
        lines += _curves(report["curves"])
    return "\n".join(lines)


def _compared(title: str, contestants: dict[str, dict[str, float]]) -> list[str]:
    lines = ["", f"| ms, {title} | median | 95 % | processor time, all threads |", "|---|---|---|---|"]
    return lines + [f"{_row(name, times)} {times['cpu_ms']:.1f} |" for name, times in contestants.items()]


def _both(times: dict[str, float]) -> str:
    return f"{times['ms']:.1f} ms, {times['cpu_ms']:.1f} ms of processor time"


def _row(name: str, times: dict[str, float]) -> str:
    return f"| {name} | {times['median_ms']:.1f} | {times['p95_ms']:.1f} |"


def _curves(curves: dict[str, list[dict[str, float]]]) -> list[str]:
    lines = []
    for points in curves.values():
        names = [name for name in points[0] if name in _COLUMNS or name == next(iter(points[0]))]
        lines += ["", "| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
        lines += ["| " + " | ".join(f"{point[name]:.4g}" for name in names) + " |" for point in points]
    return lines


_COLUMNS = (
    "walls a completion",
    "message to grid",
    "decode",
    "rasterise",
    "distance",
    "median",
    "end to end",
)
