from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from floorgent_ros import plots
from floorgent_ros.demo.pictures import Film, draw
from floorgent_ros.demo.records import Record
from floorgent_ros.geometry.grid import CELL_M, OccupancyMap
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.world import World


def rectangle(width, height):
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    return World.from_plan(Plan(np.stack([corners, np.roll(corners, -1, 0)], 1), spaces=(corners,)))


def records(count=5):
    rows, columns = np.indices((256, 256))
    result = []
    for index in range(count):
        source = (2.0 + index, 3.0)
        origin = (source[0] - 20, source[1] - 20)
        cells = np.full((80, 200), -1, np.int8)
        cells[20:60, 20 : 60 + 20 * index] = 0
        distance = (np.hypot(rows - 128, columns - 128) * CELL_M).astype(np.float32)
        nothing = np.zeros((0, 2, 2))
        shot = plots.Snapshot(OccupancyMap(cells, 0.05), source, origin, distance, nothing, [nothing] * 8)
        path = np.array([(2.0 + 0.5 * step, 3.0) for step in range(2 * index + 1)])
        result.append(Record(shot, path, 0.1, 0.2, index + 1))
    return result


@pytest.mark.parametrize("size", [(10.0, 5.0), (5.0, 10.0)])
def test_frames_have_one_size_and_show_robot_and_walk(size):
    film = Film(rectangle(*size).truth, 20.0)
    frames = [film.frame(record) for record in records()]
    assert len({frame.shape for frame in frames}) == 1
    red = [is_red(frame).sum() for frame in frames]
    assert red[0] > 50
    assert red[-1] > red[0] + 50  # the way grew
    again = film.frame(records()[0])
    assert np.array_equal(again, frames[0])  # nothing stays from one frame to the next


def test_draw_writes_both_pictures(tmp_path, capsys):
    paths = draw(records(), rectangle(10, 5), tmp_path)
    assert [path.name for path in paths] == ["demo.png", "walk.gif"]
    with Image.open(tmp_path / "walk.gif") as film:
        assert film.n_frames == 5
        film.seek(4)
        assert is_red(np.asarray(film.convert("RGB"))).sum() > 50  # the palette has the robot's colour
        assert film.info["duration"] > 1000
    with Image.open(tmp_path / "demo.png") as picture:
        assert picture.width > 1000


def is_red(image):
    image = image.astype(int)
    return (image[..., 0] > 170) & (image[..., 1] < 80) & (image[..., 2] < 80)
