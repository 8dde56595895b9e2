"""Our own plan format."""

from __future__ import annotations

import json

import numpy as np
import pytest

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.own import FORMAT, read_own, write_own
from floorgent_ros.plans.plan import Plan
from floorgent_ros.plans.split import floors

WALL = [[0, 0], [4, 0]]


def write(path, **fields):
    path.write_text(json.dumps({"format": FORMAT, "walls": [WALL], **fields}), encoding="utf-8")
    return path


def test_a_plan_comes_back_as_it_was_written(tmp_path):
    square = np.array([[0.0, 0], [4, 0], [4, 3]])
    plan = Plan(np.array([[[0, 0], [4, 0.5]]]), np.array([[[4.0, 0], [4, 3]]]), (square,), "ground", "hall")
    write_own(plan, tmp_path / "plan.json")
    back = read_own(tmp_path / "plan.json")
    for name in ("walls", "windows"):
        np.testing.assert_array_equal(getattr(back, name), getattr(plan, name))
    np.testing.assert_array_equal(back.spaces[0], square)
    assert (back.name, back.building) == ("ground", "hall")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_names_and_windows_and_spaces_may_be_left_out(tmp_path):
    plan = read_own(write(tmp_path / "floor.json"), scale_correction=0.5)
    np.testing.assert_array_equal(plan.walls, [[[0, 0], [2, 0]]])
    assert plan.windows.shape == (0, 2, 2)
    assert (plan.name, plan.building, plan.spaces) == ("floor", "floor", ())


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"format": "other"}, "format"),
        ({"walls": []}, "no wall"),
        ({"walls": [[0, 0, 1, 1]]}, "walls is no list"),
        ({"walls": [[[0, 0], [1, "x"]]]}, "walls is no list"),
        ({"walls": [[[0, 0], [1, float("nan")]]]}, "finite"),
        ({"windows": [[[0, 0]]]}, "windows is no list"),
        ({"spaces": [[[0, 0], [1, 1]]]}, "space 0 has 2 corners"),
        ({"spaces": 3}, "spaces is no list"),
        ({"doors": []}, "unknown field"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_path(tmp_path, fields, reason):
    path = write(tmp_path / "plan.json", **fields)
    with pytest.raises(PlanError, match=reason) as caught:
        read_own(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_broken_json_is_refused(tmp_path):
    (tmp_path / "plan.json").write_text("{", encoding="utf-8")
    with pytest.raises(PlanError, match="not a readable JSON plan"):
        read_own(tmp_path / "plan.json")


def test_a_data_folder_takes_plans_and_leaves_other_json(tmp_path):
    write(tmp_path / "plan.json")
    (tmp_path / "notes.json").write_text("[]", encoding="utf-8")
    assert [floor.path.name for floor in floors(tmp_path)] == ["plan.json"]
    assert len(floors(tmp_path)[0].read().walls) == 1
