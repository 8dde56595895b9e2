"""Protocol E4's figures on cases whose answers are known, and its report over a floor."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_plan import write_plan

from floorgent_ros.cli import main
from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import PlanError
from floorgent_ros.evaluation import lidar
from floorgent_ros.evaluation.baselines import best_multiple
from floorgent_ros.evaluation.cases import Case, cases
from floorgent_ros.evaluation.lidar import LABEL, evaluate, fit_multiple, judge, summarise, table, without_nan
from floorgent_ros.evaluation.oracle import oracle
from floorgent_ros.geometry.assumptions import saturated, unknown_is_free
from floorgent_ros.geometry.distance import dilate
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, OccupancyMap, Window, crop
from floorgent_ros.geometry.observation import observe
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.predictor import DistanceField

VIEWPOINT = (3.0, 3.0)


@pytest.fixture(scope="module")
def grid():
    """A room of 6 m × 6 m with three walls; the fourth side was not seen."""
    cells = np.full((120, 120), FREE, np.int8)
    cells[:, :2] = cells[:2] = cells[-2:] = OCCUPIED
    cells[:, 80:] = UNKNOWN
    return OccupancyMap(cells, 0.05)


@pytest.fixture(scope="module")
def case(grid):
    """The truth is a way that is everywhere 3 m longer than the null's, but for the source's surroundings."""
    null = unknown_is_free(crop(grid, Window(VIEWPOINT)))
    truth = np.where(null > 2, null + 3, null)
    row, column = np.abs(np.mgrid[:256, :256] - 128)
    return Case(
        "scan", "house", "first", grid, VIEWPOINT, truth, np.isfinite(truth) & (row < 60) & (column < 100)
    )


def prediction(grid, distance, completions=()):
    distance = np.asarray(distance, np.float32)
    return DistanceField(
        distance,
        np.zeros_like(distance),
        np.ones_like(distance),
        np.zeros(distance.shape, np.int8),
        [np.asarray(walls, np.float32).reshape(-1, 2, 2) for walls in completions],
        observe(grid, VIEWPOINT),
        Window(VIEWPOINT).origin,
        VIEWPOINT,
        0,
        20.0,
        blocked=np.zeros((len(completions), *distance.shape), bool),
        timings={"complete": 40.0, "distance": 10.0},
    )


def figures(case, distance, completions=(), multiple=1.0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # without two completions there is nothing to compare
        return summarise([judge(case, prediction(case.grid, distance, completions), multiple)])


@pytest.fixture(scope="module")
def null(case):
    return unknown_is_free(crop(case.grid, Window(VIEWPOINT)))


def test_a_perfect_prediction(case):
    found = figures(case, case.truth)
    assert found["ratio"] == pytest.approx(0, abs=1e-6)
    assert found["mae_m"] == pytest.approx(0, abs=1e-5)
    assert found["null_mae_m"] == pytest.approx(3, abs=1e-5)
    assert found["null_bias_m"] == pytest.approx(-3, abs=1e-5)
    assert found["win_share"] == 1
    assert found["falsely_unreachable"] == 0
    assert found["cases"] == 1
    assert found["median_prediction_s"] == pytest.approx(0.05)


def test_the_null_as_a_prediction(case, null):
    found = figures(case, null)
    assert found["ratio"] == pytest.approx(1, abs=1e-6)
    assert found["mae_m"] == pytest.approx(found["null_mae_m"], abs=1e-5)
    assert found["bias_m"] == pytest.approx(found["null_bias_m"], abs=1e-5)


def test_only_what_is_nearer_to_the_truth_than_the_null_wins(case, null):
    wrong = null > 2
    assert figures(case, np.where(wrong, null + 0.01, null))["win_share"] == 1
    assert figures(case, np.where(wrong, null - 0.01, null))["win_share"] == 0


@pytest.mark.parametrize(("offset", "ratio"), [(-1.5, 0.5), (1.5, 0.5), (6.0, 2.0)])
def test_ratio_and_the_sign_of_the_bias(case, null, offset, ratio):
    wrong = null > 2
    found = figures(case, np.where(wrong, case.truth + offset, case.truth))
    assert found["ratio"] == pytest.approx(ratio, abs=1e-5)
    assert found["bias_m"] == pytest.approx(offset, abs=1e-5)
    assert found["mae_m"] == pytest.approx(abs(offset), abs=1e-5)
    assert found["win_share"] == (ratio < 1)


def test_mean_errors_leave_out_cells_that_both_know(case, null):
    """0.1 m of error where the null is right is not noticed, 0.5 m is."""
    near = (null <= 2) & case.counted
    assert near.any()
    assert figures(case, np.where(near, case.truth + 0.1, case.truth))["mae_m"] == pytest.approx(0, abs=1e-5)
    found = figures(case, np.where(near, case.truth + 0.5, case.truth))
    far = case.counted & ~near
    assert found["mae_m"] == pytest.approx(0.5 * near.sum() / (near.sum() + far.sum()), rel=1e-4)


def test_cells_called_unreachable_count_forty_metres(case):
    lost = case.counted & (np.arange(256) > 180)
    found = figures(case, np.where(lost, np.inf, case.truth))
    assert found["falsely_unreachable"] == pytest.approx(lost.sum() / case.counted.sum())
    errors = np.where(lost, 40 - case.truth, 0)[case.counted].sum()
    nulls = 3 * (case.truth > 2.0001)[case.counted].sum()
    assert found["ratio"] == pytest.approx(errors / nulls, rel=1e-4)


def test_truth_and_prediction_saturate(case, null):
    """Beyond 40 m nobody is more wrong: a prediction of 1000 m for a truth of 45 m is right."""
    distant = Case(**(vars(case) | {"truth": np.where(null > 2, 45.0, null)}))
    found = figures(distant, np.where(null > 2, 1000.0, null))
    assert found["ratio"] == pytest.approx(0, abs=1e-6)


def test_the_multiple_and_the_cautious_planner_stand_beside(case, null):
    found = figures(case, case.truth, multiple=1.5)
    counted = case.counted
    truth, null = case.truth[counted], null[counted]
    multiple = np.abs(np.minimum(1.5 * null, 40) - truth).sum()
    states = crop(case.grid, Window(VIEWPOINT))
    assert found["ratio_multiple"] == pytest.approx(multiple / np.abs(null - truth).sum())
    assert found["ratio_unknown_is_wall"] > 1  # most of the counted cells are unknown
    assert (states[counted] == UNKNOWN).mean() > 0.5


def test_rings_are_straight_line_distances_from_the_viewpoint(case, null):
    row, column = np.mgrid[:256, :256]
    radius = np.hypot(row + 0.5 - 128, column + 0.5 - 128) * 40 / 256
    wrong_far_away = np.where(radius >= 10, null, case.truth)
    rings = figures(case, wrong_far_away)["ratio_by_distance"]
    assert list(rings) == ["0-5 m", "5-10 m", "10-20 m"]
    assert list(rings.values()) == pytest.approx([0, 0, 1], abs=1e-5)


def test_cases_are_weighed_by_their_cells(case, null):
    shorter = np.maximum(null - 0.01, 0)
    outcomes = [
        judge(case, prediction(case.grid, distance), 1.0) for distance in (case.truth, shorter, shorter)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = summarise(outcomes)
    assert found["ratio"] == pytest.approx(2 / 3, abs=0.01)
    assert found["win_share"] == pytest.approx(1 / 3)
    assert found["cases"] == 3


def test_a_case_without_counted_cells_has_no_say(case):
    nowhere = Case(**(vars(case) | {"counted": np.zeros_like(case.counted)}))
    outcomes = [judge(each, prediction(case.grid, case.truth), 1.0) for each in (case, nowhere)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert summarise(outcomes)["win_share"] == 1


def test_completions_are_compared_by_the_walls_they_add(case):
    long, half, seen = [(8, 0), (8, 8)], [(8, 0), (8, 4)], [(1, 1), (1, 5)]
    assert figures(case, case.truth, [[long], [long]])["added_wall_iou"] == 1
    assert figures(case, case.truth, [[long], [[(9, 0), (9, 8)]]])["added_wall_iou"] == 0
    assert figures(case, case.truth, [[long], [half]])["added_wall_iou"] == pytest.approx(0.5, abs=0.02)
    assert (
        figures(case, case.truth, [[long, seen], [long]])["added_wall_iou"] == 1
    )  # over seen space nothing is added
    three = figures(case, case.truth, [[long], [long], [half]])["added_wall_iou"]
    assert three == pytest.approx((1 + 0.5 + 0.5) / 3, abs=0.02)
    assert np.isnan(figures(case, case.truth, [[long]])["added_wall_iou"])


# The report ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data folder of three buildings, one a split, and one floor that no robot fits in."""
    data = tmp_path_factory.mktemp("data")
    entries = []
    for building, split, depth in (
        ("a", "train", 6.0),
        ("b", "val", 5.0),
        ("c", "test", 7.0),
        ("c", "test", 1.0),
    ):
        path = write_plan(data / building / f"{depth:.0f}.xml", depth_m=depth, rooms=3 if depth > 1 else 1)
        entries.append({"file": str(path.relative_to(data)), "building": building, "split": split})
    (data / "index.json").write_text(json.dumps(entries), encoding="utf-8")
    return data


class NullPredictor:
    """Predicts what the null does."""

    description = "null: a predictor of the tests"
    settings = PredictorSettings()

    def __init__(self):
        self.seeds = []

    def predict(self, grid, viewpoint, *, seed):
        self.seeds.append(seed)
        field = prediction(grid, unknown_is_free(crop(grid, Window(viewpoint))), [[(0, 0), (0, 0)]] * 2)
        return SimpleNamespace(**(vars(field) | {"observation": observe(grid, viewpoint)}))


@pytest.fixture(scope="module")
def report(data):
    predictor = NullPredictor()
    test = [FloorFile(data / "c" / name, "c", "test") for name in ("7.xml", "1.xml")]
    report = evaluate(predictor, test, [FloorFile(data / "a" / "6.xml", "a", "train")], seed=2)
    assert predictor.seeds == [2] * 8  # four viewpoints, two kinds, one floor left out
    return report


def test_report_has_both_kinds_per_building_with_seed_and_model(report):
    assert {report[kind]["cases"] for kind in ("scan", "walk")} == {4}
    assert report["scan"]["ratio"] == pytest.approx(1, abs=1e-4)
    assert report["walk"]["null_mae_m"] == pytest.approx(report["walk"]["mae_m"], abs=1e-4)
    assert report["walk"]["bias_m"] == pytest.approx(report["walk"]["null_bias_m"], abs=1e-4)
    assert report["per_building"] == {kind: {"c": report[kind]["ratio"]} for kind in ("scan", "walk")}
    assert (report["seed"], report["model"]) == (2, NullPredictor.description)
    known = without_nan(report)
    assert json.loads(json.dumps(known)) == known
    assert known["scan"]["ratio_low"] is None  # one building says nothing of others


def test_multiple_is_fitted_on_one_viewpoint_of_each_floor_given_for_it(report, data):
    floors = [FloorFile(data / "a" / "6.xml", "a", "train"), FloorFile(data / "b" / "5.xml", "b", "train")]
    nulls, truths = {}, {}
    for floor in floors:
        for case in cases(floor, seed=2, viewpoints=1):
            null = unknown_is_free(crop(case.grid, Window(case.viewpoint)))[case.counted]
            nulls.setdefault(case.kind, []).append(saturated(null))
            truths.setdefault(case.kind, []).append(saturated(case.truth[case.counted]))
    assert fit_multiple(floors, 2) == {kind: best_multiple(nulls[kind], truths[kind]) for kind in nulls}
    assert report["multiple"] == fit_multiple(floors[:1], 2)
    assert fit_multiple([], 2) == {"scan": 1.0, "walk": 1.0}


def test_table_shows_every_figure_for_both_kinds(report):
    text = table(report)
    head, *lines = text.splitlines()
    assert head.split() == ["scan", "walk"]
    for key, value in report["scan"].items():
        if not isinstance(value, dict):
            (line,) = [line for line in lines if line[:LABEL].strip() == key]
            assert line[LABEL:].split() == [f"{report[kind][key]:.3f}" for kind in ("scan", "walk")]
    ratios = [line[:LABEL].strip() for line in lines if line.startswith("ratio")]
    assert ratios == [
        "ratio",
        "ratio_low",
        "ratio_high",
        "ratio_multiple",
        "ratio_unknown_costs",
        "ratio_unknown_is_wall",
    ] + [f"ratio {name}" for name in ("0-5 m", "5-10 m", "10-20 m", "c")]


def test_no_usable_floor_is_said(data, capsys):
    with pytest.raises(PlanError, match="none of the floors gave a case"):
        evaluate(NullPredictor(), [FloorFile(data / "c" / "1.xml", "c", "test")], [])
    assert len([line for line in capsys.readouterr().out.splitlines() if "left out" in line]) == 1


@pytest.mark.parametrize(
    ("options", "buildings"), [([], {"b"}), (["--split", "all", "--floors", "1", "--top-p", "0.5"], {"a"})]
)
def test_command_evaluates_the_floors_of_a_split(data, monkeypatch, capsys, options, buildings):
    made = []

    def from_checkpoint(path, *, device, settings):
        made.append((path, device, settings.top_p))
        return NullPredictor()

    monkeypatch.setattr(lidar, "DistancePredictor", SimpleNamespace(from_checkpoint=from_checkpoint))
    command = ["evaluate", "lidar", "--data", str(data), "--device", "cpu", "--json", *options]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["per_building"]["scan"]) == buildings
    assert report["split"] == ("all" if options else "val")
    assert made == [(None, "cpu", 0.5 if options else PredictorSettings.top_p)]


def test_true_walls_in_the_predictors_place_give_the_bound(data):
    floor, predictor = FloorFile(data / "c" / "7.xml", "c", "test"), NullPredictor()
    report = evaluate(predictor, [floor], [], oracle_horizon_m=20.0)
    assert predictor.seeds == []
    assert report["model"] == "true walls, 20 m, jitter 0 cells"
    blind = evaluate(predictor, [floor], [], oracle_horizon_m=0.5)  # no wall is that near
    assert [blind[kind]["ratio"] for kind in ("scan", "walk")] == pytest.approx([1, 1], abs=1e-4)
    assert report["scan"]["ratio"] < 0.95
    assert report["walk"]["ratio"] <= 1  # a walk through three rooms leaves little to know


def test_true_unseen_walls_are_none_of_the_seen_ones(data):
    case = next(cases(FloorFile(data / "c" / "7.xml", "c", "test"), seed=0))
    field = oracle(case, 20.0)
    (walls,) = field.completions
    assert len(walls) > 0
    drawn, states = rasterise_metres(walls, field.observation.window), field.observation.states
    assert not (drawn & (states == FREE)).any()
    true = dilate(rasterise_metres(case.segments, field.observation.window), CELL_M)
    assert (drawn & true).sum() > 0.95 * drawn.sum()


def test_jitter_shifts_every_true_wall_by_itself_and_its_width_is_the_given_one(data):
    case = next(cases(FloorFile(data / "c" / "7.xml", "c", "test"), seed=0))
    settings = PredictorSettings(detour_m=0.0, completions=64)
    (true,) = oracle(case, 20.0).completions
    field = oracle(case, 20.0, 2.0, settings)
    assert len(field.completions) == 64
    shifts = np.stack(field.completions) - true
    np.testing.assert_allclose(shifts[:, :, 0], shifts[:, :, 1], atol=1e-4)  # no wall is turned
    assert shifts.std() == pytest.approx(2 * CELL_M, rel=0.1)
    assert np.abs(shifts - shifts[:1]).max() > CELL_M  # anew in each completion
    opened = oracle(case, 20.0, 2.0, PredictorSettings(detour_m=5.0, completions=64))
    assert np.isfinite(opened.distance).sum() >= np.isfinite(field.distance).sum()
