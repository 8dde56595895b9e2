from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from floorgent_ros import plots
from floorgent_ros.geometry.grid import CELL_M, WINDOW_CELLS, OccupancyMap

ORIGIN = (-15.0, -18.0)
SOURCE = (5.0, 2.0)


def snapshot(completions=8):
    grid = np.full((200, 300), -1, np.int8)
    grid[50:150, 50:250] = 0
    grid[50:52, 50:250] = 100
    rows, columns = np.indices((WINDOW_CELLS, WINDOW_CELLS))
    distance = (np.hypot(rows - 128, columns - 128) * CELL_M).astype(np.float32)
    distance[:, 200:] = np.inf
    distance[100, 60:100] = np.nan
    walls = np.array([[[0, -2], [10, -2]], [[0, 6], [10, 6]]], float)
    return plots.Snapshot(
        OccupancyMap(grid, 0.1, (-10.0, -8.0)),
        SOURCE,
        ORIGIN,
        distance,
        walls,
        [np.array([[[12, -3], [12, 3 + i]]], np.float32) for i in range(completions)],
    )


def new_axes(limits):
    figure = plots.new_figure(4, 4)
    axes = figure.add_axes((0, 0, 1, 1))
    plots.frame_axes(axes, "", limits)
    return figure, axes


def colour_at(figure, axes, point):
    """The RGB of the pixel that shows a point, 0…1."""
    image = plots.pixels(figure)
    x, y = axes.transData.transform(point)
    return image[image.shape[0] - 1 - int(y), int(x)] / 255


@pytest.mark.parametrize(("origin", "yaw"), [((0.0, 0.0), 0.0), ((3.0, -1.0), 0.5), ((-2.0, 4.0), -2.2)])
def test_a_map_is_drawn_where_it_lies_with_its_yaw(origin, yaw):
    cells = np.full((20, 30), -1, np.int8)
    cells[0:10, 0:15], cells[10:20, 15:30] = 0, 100
    grid = OccupancyMap(cells, 0.2, origin, yaw)
    middle = grid.to_frame((15, 10))
    figure, axes = new_axes((middle[0] - 5, middle[0] + 5, middle[1] - 5, middle[1] + 5))
    plots.draw_map(axes, grid)
    assert colour_at(figure, axes, grid.to_frame((7, 5))) == pytest.approx([1, 1, 1], abs=0.02)
    assert colour_at(figure, axes, grid.to_frame((22, 15))) == pytest.approx([0, 0, 0], abs=0.02)
    unknown = [int(plots.UNSEEN_COLOUR[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    assert colour_at(figure, axes, grid.to_frame((7, 15))) == pytest.approx(unknown, abs=0.02)
    assert colour_at(figure, axes, grid.to_frame((-3, 5))) == pytest.approx(unknown, abs=0.02)


def test_distances_are_coloured_by_their_rule():
    shot = snapshot()
    figure, axes = new_axes(shot.limits)
    plots.draw_distance(axes, shot.distance, shot.origin, 20.0)
    at = lambda row, column: (ORIGIN[0] + (column + 0.5) * CELL_M, ORIGIN[1] + (row + 0.5) * CELL_M)  # noqa: E731
    assert colour_at(figure, axes, at(100, 80)) == pytest.approx([0, 0, 0], abs=0.02)  # NaN: occupied
    grey = [int(plots.UNSEEN_COLOUR[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    assert colour_at(figure, axes, at(128, 230)) == pytest.approx(grey, abs=0.02)  # inf: not reached
    near, far = colour_at(figure, axes, at(129, 129)), colour_at(figure, axes, at(128, 20))
    colours = plots.distance_colours()
    assert near == pytest.approx(colours(0.01)[:3], abs=0.05)
    assert far == pytest.approx(colours(108 * CELL_M / 20)[:3], abs=0.05)
    assert min(near) > 0.1  # the near end is no black


def test_drawing_leaves_the_limits_of_the_axes_alone():
    shot = snapshot()
    _, axes = new_axes((1.0, 2.0, 3.0, 4.0))
    plots.draw_map(axes, shot.grid)
    plots.draw_distance(axes, shot.distance, shot.origin, 20.0)
    plots.draw_walls(axes, shot.walls)
    assert (*axes.get_xlim(), *axes.get_ylim()) == (1.0, 2.0, 3.0, 4.0)


def test_contours_skip_jumps_and_windows_without_distance():
    shot = snapshot()
    _, axes = new_axes(shot.limits)
    lines = plots.draw_contours(axes, shot.distance, shot.origin)
    assert list(lines.levels[:3]) == [5, 10, 15]
    jump = np.where(np.arange(WINDOW_CELLS) < 128, 1.0, 30.0)[None].repeat(WINDOW_CELLS, 0)
    segments = plots.draw_contours(axes, jump, shot.origin).allsegs
    assert sum(len(line) for level in segments for line in level) == 0
    assert plots.draw_contours(axes, np.full((WINDOW_CELLS, WINDOW_CELLS), np.inf), shot.origin) is None


@pytest.mark.parametrize("completions", [1, 3, 8, 11])
def test_the_prediction_figure_shows_up_to_eight_completions(completions, tmp_path):
    figure = plots.prediction_figure(snapshot(completions))
    titles = [axes.get_title() for axes in figure.axes]
    assert sum(title.startswith("completion") for title in titles) == min(completions, 8)
    assert f"Median distance over {completions} completions" in titles
    labelled = [axes for axes in figure.axes if axes.get_xlabel() == "x [m]"]
    assert len(labelled) == 2
    assert all(axes.get_xlim() == pytest.approx((-15, 25)) for axes in labelled)
    path = plots.save(figure, tmp_path / "new" / "picture.png")
    with Image.open(path) as picture:
        assert picture.width > picture.height > 400


def test_the_scale_ends_at_a_round_number_that_holds_nearly_all():
    assert plots.distance_scale([np.array([np.inf, 1.0, 23.0]), np.array([np.nan, 31.2])]) == 35
    assert plots.distance_scale([np.array([0.5])]) == 10
    assert plots.distance_scale([np.array([np.inf])]) == 40
    assert plots.distance_scale([]) == 40


def test_completions_differ_in_colour_and_none_is_the_robots_red():
    colours = np.array([plots.completion_colour(i, 8) for i in range(8)])
    apart = np.abs(colours[:, None] - colours[None]).sum(-1) + np.eye(8)
    assert apart.min() > 0.15
    red = np.array([int(plots.ROBOT_COLOUR[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    assert np.abs(colours - red).sum(-1).min() > 0.3


def test_a_picture_is_a_png_whatever_it_is_called_and_whole_or_not_there(tmp_path, monkeypatch):
    figure = plots.prediction_figure(snapshot(1))
    for name in ("picture", "picture.npz"):
        assert plots.save(figure, tmp_path / name) == tmp_path / name
        with Image.open(tmp_path / name) as picture:
            assert picture.format == "PNG"
    before = (tmp_path / "picture").read_bytes()

    def broken(part, **_):
        part.write_bytes(b"half a pic")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", broken)
    with pytest.raises(OSError, match="No space"):
        plots.save(figure, tmp_path / "picture")
    assert (tmp_path / "picture").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture", "picture.npz"]
