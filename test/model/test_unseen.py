"""The walls seen, a mark and the walls unseen as one sequence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.segments import unseen_walls
from floorgent_ros.geometry.symmetry import SYMMETRIES
from floorgent_ros.model.paper.config import UnseenConfig
from floorgent_ros.model.paper.unseen import MARK, NOT_TOLD, beyond, free_image, joined, told, touching
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


def test_how_far_the_unknown_reaches_beyond_each_end():
    image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    walls = np.array([[60, 100, 80, 100], [60, 30, 60, 10], [200, 20, 210, 30], [150, 150, 150, 160]])
    image[rasterise(walls.reshape(-1, 2, 2) + 0.5)] = OCCUPIED
    image[100, 85] = OCCUPIED  # another wall, four unknown cells on
    image[100, 59] = FREE
    image[31:33, 60] = OCCUPIED  # more of the wall than was traced, and then sight
    image[33, 60] = FREE
    image[31 + 3, 211 + 3] = FREE  # three cells on
    image[161:164, 150] = OCCUPIED  # more than rounding: a wall of its own, which ends it
    image[164, 150] = OCCUPIED
    classes = beyond(np.concatenate([walls, MARK]), image)
    np.testing.assert_array_equal(classes, [[0, 2], [0, 2], [3, 1], [4, 0], [NOT_TOLD, NOT_TOLD]])


def test_the_runs_that_make_a_class():
    for run, expected in ((0, 0), (1, 1), (3, 1), (4, 2), (11, 2), (12, 3), (31, 3), (32, 4), (99, 4)):
        image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
        image[:, 41 + run :] = FREE
        assert beyond(np.array([[20, 7, 40, 7]]), image)[0, 1] == expected


def test_walls_that_touch_what_was_seen():
    walls = np.array(
        [[183, 90, 220, 90], [184, 80, 220, 80], [140, 200, 140, 173], [140, 200, 140, 175], [0, 0, 9, 9]]
    )
    assert touching(walls, image_of(ROOM)).tolist() == [True, False, True, False, False]
    assert touching(np.zeros((0, 4), np.int64), image_of(ROOM)).shape == (0,)


def test_a_network_that_asks_for_less_and_is_told_more():
    config = replace(CONFIG, asked="touching", beyond=True)
    walls = config.frame.ordered(np.array([[183, 90, 220, 90], [210, 80, 220, 80], [180, 173, 180, 250]]))
    samples = [Sample(image_of(ROOM), walls), Sample(image_of(ROOM[:2]), walls[:1])]
    batch = collate_unseen(samples, config)
    assert batch.asked.tolist() == [int(touching(s.walls, s.image).sum()) for s in samples]
    assert batch.asked.tolist()[0] == 2
    for row, told_count, sample in zip(batch.beyond, batch.given, samples, strict=True):
        known = told(sample.image, config)
        np.testing.assert_array_equal(row[: int(told_count)].numpy(), beyond(known, sample.image))
        assert (row[int(told_count) :] == NOT_TOLD).all()
    assert collate_unseen(samples, CONFIG).beyond is None


SEEN = np.array([[100, 90, 140, 90], [140, 90, 140, 130], [40, 60, 70, 81]])


@pytest.mark.parametrize(
    ("unseen", "expected"),
    [
        ([143, 90, 160, 90], [140, 90, 160, 90]),  # goes on
        ([143, 91, 160, 91], [140, 90, 160, 90]),  # a cell beside, by rounding
        ([80, 90, 96, 90], [80, 90, 100, 90]),  # from the other end
        ([140, 133, 140, 150], [140, 130, 140, 150]),
        ([143, 92, 160, 92], [140, 92, 160, 92]),  # meets the wall across instead
        ([110, 60, 110, 87], [110, 60, 110, 90]),
        ([110, 93, 110, 104], [110, 90, 110, 104]),
        ([143, 132, 160, 132], [140, 132, 160, 132]),  # at its end
        ([143, 137, 160, 137], [143, 137, 160, 137]),  # passes by
        ([147, 90, 160, 90], [147, 90, 160, 90]),  # too far
        ([110, 60, 110, 83], [110, 60, 110, 83]),
        ([73, 83, 90, 95], [73, 83, 90, 95]),  # slanted ones stay
        ([104, 93, 132, 93], [104, 93, 132, 93]),  # runs beside a seen wall
        ([141, 90, 143, 90], [140, 90, 143, 90]),
    ],
)
def test_an_unseen_wall_reaches_to_what_it_goes_on_or_meets(unseen, expected):
    walls = np.array([unseen, [200, 200, 210, 200]])
    before = walls.copy()
    np.testing.assert_array_equal(joined(walls, SEEN), [expected, walls[1]])
    turned = np.array([unseen[2:] + unseen[:2]])  # whichever end stands first
    np.testing.assert_array_equal(joined(turned, SEEN), [expected[2:] + expected[:2]])
    np.testing.assert_array_equal(walls, before)


@pytest.mark.parametrize(
    ("wall", "expected"),
    [
        ([160, 50, 198, 50], [160, 50, 200, 50]),  # two cells short
        ([160, 50, 202, 50], [160, 50, 200, 50]),  # or long
        ([160, 50, 197, 50], [160, 50, 197, 50]),  # a gap
        ([200, 50, 240, 50], [200, 50, 240, 50]),
        ([201, 37, 240, 37], [201, 37, 240, 37]),
        ([160, 50, 198, 60], [160, 50, 198, 60]),  # slanted
    ],
)
def test_unseen_walls_meet_where_rounding_parted_them(wall, expected):
    walls = np.array([wall, [200, 40, 200, 80]])
    np.testing.assert_array_equal(joined(walls, SEEN), [expected, walls[1]])


def test_two_ends_that_meet_in_a_corner_take_each_others_line():
    walls = np.array([[160, 50, 199, 50], [200, 51, 200, 80]])
    np.testing.assert_array_equal(joined(walls, SEEN), [[160, 50, 200, 50], [200, 50, 200, 80]])


def test_without_walls_nothing_is_joined():
    none = np.zeros((0, 4), np.int64)
    assert joined(none, SEEN).shape == (0, 4)
    np.testing.assert_array_equal(joined(SEEN, none), SEEN)


def cells_apart(seed):
    """Cells of a random plan's unseen walls that have none within two after joining and cutting, or before.

    Within two: what is added elsewhere lies where the robot saw walls.
    """
    rng = np.random.default_rng(seed)
    x = np.sort(rng.integers(20, 230, (6, 2)), 1)
    y = rng.integers(40, 220, 6)
    rows = np.stack([x[:, 0], y, np.maximum(x[:, 1], x[:, 0] + 8), y], 1)
    plan = np.concatenate([rows, rows[:, [1, 0, 3, 2]]])
    image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    drawn = rasterise(plan.reshape(-1, 2, 2) + 0.5)
    image[60:180, 60:150] = np.where(drawn, OCCUPIED, FREE)[60:180, 60:150]
    walls = unseen_walls(plan, image)
    again = unseen_walls(joined(walls, told(image, CONFIG)[:-1]), image)
    one, other = (rasterise(w.reshape(-1, 2, 2) + 0.5) for w in (walls, again))
    around = [binary_dilation(cells, np.ones((5, 5), np.bool_)) for cells in (one, other)]
    return (one & ~around[1]).sum() + (other & ~around[0]).sum()


def test_joined_walls_cut_to_the_unseen_are_the_walls_again():
    """In nearly all plans; the seeds are fixed, since a few others lose a wall (docs/roadmap.md)."""
    apart = np.array([cells_apart(seed) for seed in range(500)])
    assert np.mean(apart == 0) >= 0.98
    assert apart.max() <= 4


def test_a_batch_asks_for_joined_walls():
    config = replace(CONFIG, joined=True)
    walls = config.frame.ordered(np.array([[183, 90, 220, 90], [210, 20, 220, 20]]))
    sample = Sample(image_of(ROOM), walls)
    batch = collate_unseen([sample], config)
    known = told(sample.image, config)[:-1]
    asked = batch.levels[0, len(known) + 1 :].numpy()
    np.testing.assert_array_equal(asked, config.frame.ordered(joined(walls, known)))
    assert (asked == 180).any() or (asked == 181).any()


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
