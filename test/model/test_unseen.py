"""The walls seen, a mark and the walls unseen as one sequence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.symmetry import SYMMETRIES
from floorgent_ros.model.paper.config import UnseenConfig
from floorgent_ros.model.paper.unseen import MARK, free_image, told
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


def test_the_walls_in_the_image_are_told_and_then_the_mark():
    levels = told(image_of(ROOM), CONFIG)
    np.testing.assert_array_equal(levels[-1:], MARK)
    assert len(levels) == 5
    expected = CONFIG.frame.ordered(ROOM)
    assert np.abs(levels[:-1] - expected).max() <= 1


def test_of_an_image_without_walls_the_mark_alone_is_told():
    empty = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    np.testing.assert_array_equal(told(empty, CONFIG), MARK)


def test_the_nearest_walls_are_told_nearest_first():
    config = replace(CONFIG, observed_segments=3)
    levels = told(image_of(ROOM), config)
    np.testing.assert_array_equal(levels[:3], told(image_of(ROOM), CONFIG)[:3])
    np.testing.assert_array_equal(levels[3:], MARK)
    distance = distance_to((2.0 * levels[:3] - WINDOW_CELLS + 1).reshape(-1, 2, 2), (0.0, 0.0))
    assert (np.diff(distance) >= 0).all()


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
        np.testing.assert_array_equal(asked, sample.walls)
    assert batch.image.shape == (2, 64, 64)


def test_what_exceeds_a_sequence_is_the_farthest():
    config = replace(CONFIG, max_segments=12)
    walls = random_levels(30)
    batch = collate_unseen([Sample(image_of(ROOM), walls)], config)
    assert batch.lengths.tolist() == [12]
    np.testing.assert_array_equal(batch.levels[0, 5:].numpy(), walls[:7])


def test_turned_observations_tell_the_turned_walls():
    """To a cell: tracing follows the pixels, which have no centre line where a wall is two cells thick."""
    sample = Sample(image_of(ROOM), random_levels(4))
    for symmetry in range(SYMMETRIES):
        turned = sample.turned(symmetry)
        expected = CONFIG.frame.ordered(Sample(sample.image, ROOM).turned(symmetry).walls)
        assert np.abs(told(turned.image, CONFIG)[:-1] - expected).max() <= 1
