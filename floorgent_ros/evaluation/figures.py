"""The paper's figures from our models: samples (1), calibration (4), distance errors (5), an example (6)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from floorgent_ros import plots
from floorgent_ros.evaluation.calibration import PLACES, Calibration
from floorgent_ros.evaluation.distance_error import OBSERVED, TRUTHS, Case, complete, errors
from floorgent_ros.evaluation.scoring import checkpoint, choose, load
from floorgent_ros.geometry.grid import CELL_M, WINDOW_M
from floorgent_ros.model.paper.sampling import draw

Segments = NDArray[np.float64]

COLUMNS = 6
BIN_M = 8 * CELL_M  # eight cell sides wide
SEEN, DRAWN, TRUE = "#d62728", "#1f77b4", "#ff7f0e"
TITLES = (r"$c^\mu$", r"$x^\mu$", r"$y^\mu$", r"$c^\lambda$", r"$x^\lambda$", r"$y^\lambda$")
SHOWN_M = 10.5  # half side of what figures of walls show


def samples(data: Path, split: str, out: Path, checkpoints: Path | None = None, seed: int = 0) -> Path | None:
    """Figure 1: novel plans, completed prompts and images; rows without a checkpoint are left out.

    Below the paper's rows the same again, by the decoder of one step a segment.
    """
    rows: list[tuple[str, list[tuple[Segments, Segments | None]]]] = []
    kinds = [
        (checkpoint(name, checkpoints), title, by)
        for plain, images, by in (
            ("floorgent", "images", ""),
            ("segments", "segments_images", ", by segment"),
        )
        for name, title in ((plain, "novel"), (plain, "prompt"), (images, "image"))
    ]
    known = [levels for levels in choose(data, split, 4 * COLUMNS) if len(levels) > OBSERVED][:COLUMNS]
    for path, title, by in kinds:
        if path is None:
            continue
        network = load(path)
        frame = network.config.frame
        if title == "novel":
            drawn = draw(network, COLUMNS, seed)
            rows.append((title + by, [(frame.to_metres(levels), None) for levels in drawn]))
            continue
        pairs: list[tuple[Segments, Segments | None]] = []
        for index, levels in enumerate(known):
            (found,) = complete(network, levels, seed + index, count=1)
            pairs.append((frame.to_metres(found), frame.to_metres(levels[:OBSERVED])))
        rows.append((title + by, pairs))
    if not rows:
        return None
    figure = plots.new_figure(2.0 * COLUMNS, 2.1 * len(rows))
    for row, (title, shown) in enumerate(rows):
        for column, (walls, observed) in enumerate(shown):
            axes = figure.add_subplot(len(rows), COLUMNS, row * COLUMNS + column + 1)
            _bare(axes, title if column == 0 else "")
            plots.draw_walls(axes, walls, DRAWN, 1.2)
            if observed is not None:
                plots.draw_walls(axes, observed, SEEN, 1.2)
    figure.subplots_adjust(left=0.03, right=0.99, top=0.98, bottom=0.02, wspace=0.05, hspace=0.05)
    return plots.save(figure, out / "samples.png")


def calibration(found: Calibration, observed: int, out: Path) -> Path:
    """Figure 4: predicted probability (dashed) and accuracy (solid) by segment index, a plot a place."""
    confidence, accuracy = found.means()
    figure = plots.new_figure(11.0, 5.0)
    for index in range(len(PLACES)):
        axes = figure.add_subplot(2, 3, index + 1)
        axes.plot(accuracy[index], color="black", linewidth=1.2, label="accuracy")
        axes.plot(confidence[index], "--", color=DRAWN, linewidth=1.2, label="predicted probability")
        if observed:
            axes.axvline(observed - 0.5, color="grey", linestyle=":", linewidth=1)
        axes.set_ylim(0, 1.03)
        axes.set_title(TITLES[index], fontsize=11)
        if index >= len(PLACES) // 2:
            axes.set_xlabel("segment")
    figure.axes[0].legend(fontsize=8, loc="lower left")
    figure.tight_layout()
    return plots.save(figure, out / "calibration.png")


def distance_errors(found: list[Case], out: Path) -> Path:
    """Figure 5: histogram of d − d̂ for prediction and null, bins of eight cell sides, a plot a truth."""
    figure = plots.new_figure(10.0, 4.0)
    bins = np.arange(-32, 33) * BIN_M
    for index, truth in enumerate(TRUTHS):
        axes = figure.add_subplot(1, 2, index + 1)
        parts = [errors(case, truth) for case in found]
        for place, (name, colour) in enumerate((("prediction $d_p$", DRAWN), ("null $d_0$", TRUE))):
            values = np.concatenate([part[place] for part in parts])
            values = values[np.isfinite(values)]
            counts, _ = np.histogram(np.clip(values, bins[0], bins[-1] - 1e-6), bins)
            axes.bar(
                bins[:-1] + 0.25 * BIN_M + 0.4 * BIN_M * place,
                counts / max(1, counts.sum()),
                0.4 * BIN_M,
                color=colour,
                label=name,
            )
        axes.set_title(f"truth: the {truth}'s segments", fontsize=11)
        axes.set_xlabel("error d − d̂ [m]")
        axes.set_ylabel("share of cells")
        axes.legend(fontsize=8)
    figure.tight_layout()
    return plots.save(figure, out / "distance_errors.png")


def distance_example(case: Case, out: Path) -> Path:
    """Figure 6: d₀, d̂ and d_p with the segments that they were measured in, and |ε| of the prediction."""
    true = case.truth["sample"]
    corner = (-WINDOW_M / 2, -WINDOW_M / 2)
    scale = plots.distance_scale([case.null, true, case.prediction])
    figure = plots.new_figure(15.0, 4.2)
    with np.errstate(invalid="ignore"):
        error = np.abs(case.prediction - true)
    drawn = case.completions[0][len(case.observed) :]
    panels: tuple[tuple[str, NDArray[np.float64], NDArray[np.float64] | None, str], ...] = (
        ("observed only, $d_0$", case.null, None, DRAWN),
        (r"truth, $\hat{d}$", true, case.own, TRUE),
        ("prediction, $d_p$", case.prediction, drawn, DRAWN),
        (r"$|\epsilon|$ [m]", np.where(np.isnan(error), np.inf, error), drawn, DRAWN),
    )
    for index, (title, field, walls, colour) in enumerate(panels):
        axes = figure.add_subplot(1, 4, index + 1)
        plots.frame_axes(axes, title, (-SHOWN_M, SHOWN_M, -SHOWN_M, SHOWN_M), labels=False)
        image = plots.draw_distance(axes, field, corner, scale)
        if walls is not None:
            plots.draw_walls(axes, walls, colour, 1.0)
        plots.draw_walls(axes, case.observed, SEEN, 1.2)
        axes.scatter([0], [0], marker="*", s=70, c="white", edgecolors="black", zorder=6)
        figure.colorbar(image, ax=axes, shrink=0.8)
    figure.tight_layout()
    return plots.save(figure, out / "distance_example.png")


def _bare(axes: Axes, title: str) -> None:
    axes.set_aspect("equal")
    axes.set(xlim=(-SHOWN_M, SHOWN_M), ylim=(-SHOWN_M, SHOWN_M), xticks=[], yticks=[])
    axes.set_ylabel(title)
