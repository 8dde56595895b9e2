"""The walls seen, a mark and the walls unseen as one sequence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.symmetry import SYMMETRIES
from floorgent_ros.model.paper.config import UnseenConfig
from floorgent_ros.model.paper.unseen import MARK, free_image, left_to_right, told
from floorgent_ros.training.samples import Sample
from floorgent_ros.training.tasks import collate_unseen

CONFIG = UnseenConfig()
ROOM = np.array([[100, 90, 180, 90], [100, 170, 180, 170], [100, 90, 100, 170], [180, 90, 180, 170]])


def image_of(walls):
    image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    image[91:170, 101:180] = FREE
    image[rasterise(walls.reshape(-1, 2, 2) + 0.5)] = OCCUPIED
    return image


def random_levels(count, seed=0):
    levels = np.random.default_rng(seed).integers(0, WINDOW_CELLS, (count, 4))
    return CONFIG.frame.ordered(levels)


def test_the_walls_in_the_image_are_told_left_to_right_and_then_the_mark():
    levels = told(image_of(ROOM), CONFIG)
    np.testing.assert_array_equal(levels[-1:], MARK)
    assert len(levels) == 5
    expected = left_to_right(ROOM, 10, CONFIG)
    assert np.abs(levels[:-1] - expected).max() <= 1


def test_of_an_image_without_walls_the_mark_alone_is_told():
    empty = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    np.testing.assert_array_equal(told(empty, CONFIG), MARK)


def test_the_nearest_walls_are_kept_and_stand_left_to_right():
    walls = random_levels(50)
    kept = left_to_right(walls[np.random.default_rng(1).permutation(len(walls))], 20, CONFIG)
    rows = list(map(tuple, kept.tolist()))
    assert rows == sorted(rows)
    assert all((a, b) < (c, d) for a, b, c, d in rows)
    distance = distance_to((2.0 * walls - WINDOW_CELLS + 1).reshape(-1, 2, 2), (0.0, 0.0))
    assert set(rows) == set(map(tuple, walls[np.argsort(distance, kind="stable")[:20]].tolist()))


def test_free_is_where_most_cells_are():
    image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    image[:4, 4:7] = FREE  # 12 of 16 cells
    image[4:6, 8:12] = FREE  # 8 of 16
    free = free_image(image, CONFIG)
    assert free.shape == (64, 64)
    assert np.argwhere(free).tolist() == [[0, 1]]


def test_a_batch_asks_for_the_unseen_walls_and_no_others():
    samples = [Sample(image_of(ROOM), random_levels(count, count)) for count in (3, 9)]
    batch = collate_unseen(samples, CONFIG)
    assert batch.given.tolist() == [5, 5]
    assert batch.asked.tolist() == [3, 9]
    for index, sample in enumerate(samples):
        asked = batch.levels[index, 5 : int(batch.lengths[index])].numpy()
        np.testing.assert_array_equal(asked, left_to_right(sample.walls, 99, CONFIG))
    assert batch.image.shape == (2, 64, 64)


def test_what_exceeds_a_sequence_is_the_farthest():
    config = replace(CONFIG, max_segments=12)
    walls = random_levels(30)
    batch = collate_unseen([Sample(image_of(ROOM), walls)], config)
    assert batch.lengths.tolist() == [12]
    np.testing.assert_array_equal(batch.levels[0, 5:].numpy(), left_to_right(walls, 7, config))


def test_turned_observations_tell_the_turned_walls():
    """To a cell: tracing follows the pixels, which have no centre line where a wall is two cells thick."""
    sample = Sample(image_of(ROOM), random_levels(4))
    for symmetry in range(SYMMETRIES):
        turned = sample.turned(symmetry)
        expected = left_to_right(Sample(sample.image, ROOM).turned(symmetry).walls, 10, CONFIG)
        assert np.abs(told(turned.image, CONFIG)[:-1] - expected).max() <= 1
