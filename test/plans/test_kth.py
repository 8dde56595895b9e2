"""The KTH reader on small files written here: scale, orientation, spaces, and every way to be unusable."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.kth import read_kth

SQUARE = [(0, 0, 100, 0), (100, 0, 100, 80), (100, 80, 0, 80), (0, 80, 0, 0)]
SCALE = '<Scale PixelDistance="200" RealDistance="10"/>'  # 0.05 m a pixel
NINE = 'x2="9"'
WALL = '<space><contour><linesegment x1="0" y1="0" x2="9" y2="0" type="Wall"/></contour></space>'


def line(ends, kind="Wall"):
    x1, y1, x2, y2 = ends
    return f'<linesegment x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" type="{kind}" target=""/>'


def space(*lines):
    return f'<space name="s" type="ROOM"><contour><centroid x="0" y="0"/>{"".join(lines)}</contour></space>'


def write(folder, *spaces, scale=SCALE, attributes='BuildingName="B7" FloorName="2"'):
    path = folder / "floor.xml"
    path.write_text(f'<?xml version="1.0"?><floor {attributes}>{scale}{"".join(spaces)}</floor>')
    return path


def covered(plan, x, y):
    """Whether the cell of 0.05 m at (x, y) metres, −10 ≤ x, y < 10, is indoors."""
    mask = plan.indoor(lambda points: (points + 10) / 0.05, (400, 400))
    return bool(mask[int((y + 10) / 0.05), int((x + 10) / 0.05)])


def test_pixels_become_metres_and_y_is_turned_upwards(tmp_path):
    plan = read_kth(write(tmp_path, space(line((10, 20, 30, 60)))))
    assert np.allclose(plan.walls, [[[0.5, -1.0], [1.5, -3.0]]])
    assert (plan.name, plan.building) == ("floor", "B7")


def test_a_scale_correction_multiplies_everything(tmp_path):
    path = write(tmp_path, space(*map(line, SQUARE)), space(line((0, 0, 9, 9), "Window")))
    plain, corrected = read_kth(path), read_kth(path, 2.0)
    assert np.allclose(corrected.walls, 2 * plain.walls)
    assert np.allclose(corrected.windows, 2 * plain.windows)
    assert np.allclose(corrected.spaces[0], 2 * plain.spaces[0])


def test_windows_count_as_walls_and_portals_are_openings(tmp_path):
    first, second, third, fourth = SQUARE
    room = space(line(first), line(second, "Window"), line(third, "Portal"), line(fourth))
    plan = read_kth(write(tmp_path, room))
    assert np.allclose(plan.walls, [[[0, 0], [5, 0]], [[0, -4], [0, 0]]])
    assert np.allclose(plan.windows, [[[5, 0], [5, -4]]])
    assert np.allclose(plan.segments, np.concatenate([plan.walls, plan.windows]))
    assert np.allclose(plan.spaces[0], [[0, 0], [5, 0], [5, -4], [0, -4]])  # the portal's end is a corner too


def test_the_building_is_the_folder_where_the_file_does_not_say(tmp_path):
    assert read_kth(write(tmp_path, WALL, attributes="")).building == tmp_path.name


def test_an_unclosed_contour_keeps_its_last_end(tmp_path):
    plan = read_kth(write(tmp_path, space(*map(line, SQUARE[:3]))))
    assert np.allclose(plan.spaces[0], [[0, 0], [5, 0], [5, -4], [0, -4]])
    assert covered(plan, 0.3, -3.5)
    assert not covered(plan, -0.3, -3.5)


def test_a_line_missing_in_the_middle_cuts_no_corner(tmp_path):
    plan = read_kth(write(tmp_path, space(line(SQUARE[0]), line(SQUARE[2]), line(SQUARE[3]))))
    assert np.allclose(plan.spaces[0], [[0, 0], [5, 0], [5, -4], [0, -4]])


def test_a_second_loop_of_a_contour_is_a_hole(tmp_path):
    yard = [(20, 20, 20, 60), (20, 60, 80, 60), (80, 60, 80, 20), (80, 20, 20, 20)]
    plan = read_kth(write(tmp_path, space(*map(line, SQUARE + yard))))
    for x, y in ((0.5, -0.5), (4.5, -0.5), (0.5, -3.5), (4.5, -3.5), (2.5, -0.5), (0.5, -2.0)):
        assert covered(plan, x, y)
    for x, y in ((1.5, -1.5), (3.5, -1.5), (2.5, -2.0), (2.5, -2.8)):
        assert not covered(plan, x, y)


def test_spaces_without_a_contour_of_some_area_are_left_out(tmp_path):
    empty = '<space name="none" type=""/><space><contour><centroid x="1" y="1"/></contour></space>'
    plan = read_kth(write(tmp_path, empty, WALL, space(*map(line, SQUARE))))
    assert len(plan.spaces) == 1
    assert len(plan.walls) == 5


BAD = {
    "empty": b"",
    "no XML": b"P5 2 2 255 \x00\xff\x00\xff",
    "cut off": f"<floor>{SCALE}<space><contour>".encode(),
    "unknown encoding": f'<?xml version="1.0" encoding="latin-77"?><floor>{SCALE}{WALL}</floor>'.encode(),
    "no UTF-8": b"<floor BuildingName='\xe5'/>",
    "no scale": f"<floor>{WALL}</floor>".encode(),
    "scale without pixels": f'<floor><Scale RealDistance="10"/>{WALL}</floor>'.encode(),
    "no floor": b"<svg><line x1='0'/></svg>",
    "no wall": f"<floor>{SCALE}{space(line((0, 0, 5, 0), 'Window'))}</floor>".encode(),
    "no space": f"<floor>{SCALE}</floor>".encode(),
    "end missing": f"<floor>{SCALE}{WALL.replace(NINE, '')}</floor>".encode(),
    "comma": f"<floor>{SCALE}{WALL.replace('9', '9,5')}</floor>".encode(),
    "infinite": f"<floor>{SCALE}{WALL.replace('9', 'inf')}</floor>".encode(),
    "line break": f"<floor>{SCALE}{WALL.replace('9', 'a&#10;b')}</floor>".encode(),
    "portal nowhere": f"<floor>{SCALE}{WALL}{space(line((0, 'nan', 5, 0), 'Portal'))}</floor>".encode(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line_with_its_path(tmp_path, name):
    path = tmp_path / "bad.xml"
    path.write_bytes(BAD[name])
    assert_refused(path)


@pytest.mark.parametrize("name", ["missing.xml", "."])
def test_a_missing_file_and_a_folder_are_refused_in_one_line(tmp_path, name):
    assert_refused(tmp_path / name)


@pytest.mark.parametrize(
    ("pixels", "real"), [("0", "10"), ("-5", "10"), ("200", "0"), ("nan", "1"), ("x", "1")]
)
def test_an_unusable_scale_is_refused(tmp_path, pixels, real):
    assert_refused(write(tmp_path, WALL, scale=f'<Scale PixelDistance="{pixels}" RealDistance="{real}"/>'))


@pytest.mark.parametrize("correction", [0.0, -1.0, float("nan"), float("inf")])
def test_an_unusable_correction_is_refused(tmp_path, correction):
    assert_refused(write(tmp_path, WALL), correction)


def test_a_refusal_names_what_is_missing(tmp_path):
    with pytest.raises(PlanError, match="PixelDistance"):
        read_kth(write(tmp_path, WALL, scale='<Scale RealDistance="10"/>'))
    with pytest.raises(PlanError, match="y2"):
        read_kth(write(tmp_path, WALL.replace('y2="0"', "")))


def assert_refused(path, correction=1.0):
    with pytest.raises(PlanError) as refusal:
        read_kth(path, correction)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)
