"""The hand-traced schools' format."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.school import DOOR_M, read_school
from floorgent_ros.plans.split import floors, read_plan

PLAN = """<building id="b"><scale><represented_distance><value>10</value><um>pixel</um></represented_distance>
<real_distance><value>{real}</value><um>cm</um></real_distance></scale><floor><spaces><space id="s">
<bounding_polygon><point x="0" y="0"/><point x="100" y="0"/><point x="100" y="50"/><point x="0" y="50"/>
</bounding_polygon><space_representation>{lines}</space_representation><portals><portal>
<linesegment>abc</linesegment></portal></portals></space></spaces></floor></building>"""


def line(kind, x0, y0, x1, y1):
    points = f'<point x="{x0}" y="{y0}"/><point x="{x1}" y="{y1}"/>'
    return f"<linesegment>{points}<class>{kind}</class></linesegment>"


def write(path, *lines, real="90"):
    path.write_text(PLAN.format(real=real, lines="".join(lines)), encoding="utf-8")
    return path


def test_pixels_become_metres_with_y_upwards(tmp_path):
    plan = read_school(write(tmp_path / "a.xml", line("WALL", 0, 0, 100, 0)), scale_correction=2.0)
    np.testing.assert_allclose(plan.walls, [[[0, 0], [18, 0]]])
    np.testing.assert_allclose(plan.spaces[0][2], [18, -9])
    assert plan.building == plan.name == "a"


def test_a_door_opens_the_wall_that_it_stands_in_and_no_other(tmp_path):
    plan = read_school(
        write(
            tmp_path / "a.xml",
            line("WALL", 0, 0, 50, 0),
            line("PORTAL", 50, 0, 50, 0),
            line("WALL", 50, 0, 100, 0),
            line("WALL", 100, 0, 100, 50),
        )
    )
    lengths = np.linalg.norm(plan.walls[:, 1] - plan.walls[:, 0], axis=1)
    assert sorted(lengths) == pytest.approx([4.05, 4.05, 4.5])
    assert 9.0 + 4.5 - lengths.sum() == pytest.approx(DOOR_M)


def test_a_wall_as_narrow_as_its_door_is_gone(tmp_path):
    walls = (line("WALL", 0, 0, 8, 0), line("PORTAL", 4, 0, 4, 0), line("WALL", 0, 20, 80, 20))
    plan = read_school(write(tmp_path / "a.xml", *walls))
    np.testing.assert_allclose(plan.walls, [[[0, -1.8], [7.2, -1.8]]])


@pytest.mark.parametrize(
    ("lines", "real", "reason"),
    [((), "90", "no wall"), ((line("WALL", 0, 0, "x", 0),), "90", "not a readable"), ((), "0", "scale is 0")],
)
def test_what_cannot_be_read_is_one_line_with_the_path(tmp_path, lines, real, reason):
    path = write(tmp_path / "bad.xml", *lines, real=real)
    with pytest.raises(PlanError, match=reason) as caught:
        read_school(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_data_folder_tells_the_formats_apart(tmp_path):
    write(tmp_path / "school.xml", line("WALL", 0, 0, 100, 0))
    assert [floor.read().name for floor in floors(tmp_path)] == ["school"]
    (tmp_path / "none.xml").write_text("nonsense", encoding="utf-8")
    with pytest.raises(PlanError, match="not a readable KTH"):
        read_plan(tmp_path / "none.xml")
