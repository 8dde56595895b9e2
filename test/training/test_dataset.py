"""Samples on disk and batches of them: lossless, in an order that depends on seed and number only."""

from __future__ import annotations

import itertools
import json
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tiny_model import random_image, random_walls, write_samples
from tiny_plan import write_plan

from floorgent_ros.errors import PlanError
from floorgent_ros.geometry.lattice import POINTS
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.model.sequence import Layout
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.training import dataset
from floorgent_ros.training.dataset import (
    Draw,
    SampleFolder,
    batches,
    collate,
    draw_many,
    pack,
    prepare,
    prepare_once,
    unpack,
)
from floorgent_ros.training.samples import Sample

LAYOUT = Layout(256, 8)
COUNT = 11


def collated(samples):
    return collate(samples, LAYOUT, 320)


@pytest.fixture(scope="module")
def written():
    rng = np.random.default_rng(0)
    return [(random_image(rng, 256), random_walls(rng, 1 + 3 * i, 256)) for i in range(COUNT)]


@pytest.fixture
def folder(tmp_path, written):
    write_samples(tmp_path / "samples", written)
    return tmp_path / "samples"


def same(first, second):
    return all(
        torch.equal(getattr(first, name), getattr(second, name))
        for name in ("image", "rows", "levels", "lengths", "raster")
    )


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 9).flatmap(
        lambda side: arrays(np.int8, (4 * side, 4 * side), elements=st.sampled_from([-1, 0, 100]))
    )
)
def test_unpacking_gives_the_states_back(image):
    packed = pack(image)
    assert packed.shape == (len(image), len(image) // 4)
    assert packed.dtype == np.uint8
    assert unpack(packed).dtype == np.int8
    assert np.array_equal(unpack(packed), image)


def test_the_docstrings_example_of_a_byte():
    assert unpack(np.array([[0b10010010]], np.uint8)).tolist() == [[100, -1, 0, 100]]


def test_a_folder_gives_each_sample_back(folder, written):
    samples = SampleFolder(folder)
    assert len(samples) == COUNT
    assert samples.lengths.tolist() == [len(walls) for _, walls in written]
    for index in (COUNT - 1, 0, 4):
        assert np.array_equal(samples[index].image, written[index][0])
        assert np.array_equal(samples[index].walls, written[index][1])
        assert samples[index].walls.dtype == np.int64


@pytest.mark.parametrize("name", ["images.npy", "walls.npy", "offsets.npy", "ways.npy"])
@pytest.mark.parametrize(
    "fault",
    ["missing", "truncated", "text", "empty"],
)
def test_a_broken_folder_is_said_in_one_line(folder, name, fault):
    path = folder / name
    content = {"missing": b"", "truncated": path.read_bytes()[:-3], "text": b"no array", "empty": b""}[fault]
    path.unlink()
    if fault != "missing":
        path.write_bytes(content)
    with pytest.raises(PlanError) as caught:
        SampleFolder(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{folder}: ")
    assert "delete the folder" in message


def test_collated_samples_are_encoded_padded_and_drawn(written):
    samples = [Sample(*written[index]) for index in (5, 0, 3)]
    samples.append(Sample(written[1][0], np.zeros((0, 4), np.int64)))
    batch = collate(samples, LAYOUT, 320)
    rows = [LAYOUT.encode(sample.walls) for sample in samples]
    assert batch.lengths.tolist() == [len(row) for row in rows]
    assert batch.rows.shape == (4, max(map(len, rows)), 5)
    for index, (sample, row) in enumerate(zip(samples, rows, strict=True)):
        levels = LAYOUT.decode(row)
        assert np.array_equal(batch.image[index], sample.image)
        assert np.array_equal(batch.rows[index, : len(row)], row)
        assert np.array_equal(batch.levels[index, : len(row)], levels)
        assert not batch.rows[index, len(row) :].any()
        assert not batch.levels[index, len(row) :].any()
        drawn = rasterise(levels.reshape(-1, 2, 2))
        assert np.array_equal(batch.raster[index], drawn)
        assert drawn.any() == (len(levels) > 0)
    assert (batch.image.dtype, batch.rows.dtype, batch.raster.dtype) == (torch.int8, torch.int64, torch.bool)


def test_the_farthest_walls_of_a_long_sample_are_left_out(written):
    sample = Sample(*written[-1])
    batch = collate([sample], LAYOUT, 7)
    rows = LAYOUT.encode(sample.walls)
    assert len(rows) > 7
    assert batch.lengths.tolist() == [7]
    assert np.array_equal(batch.rows[0], rows[:7])
    assert np.array_equal(batch.raster[0], rasterise(LAYOUT.decode(rows[:7]).reshape(-1, 2, 2)))


def test_stream_from_a_later_batch_is_the_stream_without_the_first_ones(folder):
    samples = SampleFolder(folder)  # 11 samples in batches of 4: two an epoch
    whole = list(itertools.islice(batches(samples, collated, 4, seed=5), 7))
    for first in (1, 2, 5):
        later = itertools.islice(batches(samples, collated, 4, seed=5, first=first), 7 - first)
        assert all(same(a, b) for a, b in zip(later, whole[first:], strict=True))


def test_stream_depends_on_the_seed_and_epochs_differ(folder):
    samples = SampleFolder(folder)
    one, again, other = (
        list(itertools.islice(batches(samples, collated, 4, seed=seed), 4)) for seed in (1, 1, 2)
    )
    assert all(same(a, b) for a, b in zip(one, again, strict=True))
    assert not any(same(a, b) for a, b in zip(one, other, strict=True))
    assert not any(same(a, b) for a, b in itertools.combinations(one, 2))


def test_an_epoch_shows_no_sample_twice_and_turns_keep_what_a_sample_is(folder, written):
    samples = SampleFolder(folder)
    counts = {tuple(np.bincount(image.ravel() + 1, minlength=102)): i for i, (image, _) in enumerate(written)}
    assert len(counts) == COUNT
    turns = set()
    for epoch in range(6):
        stream = itertools.islice(batches(samples, collated, 5, seed=3, first=2 * epoch), 2)
        seen = []
        for batch in stream:
            for image, length in zip(batch.image.numpy(), batch.lengths.tolist(), strict=True):
                index = counts[tuple(np.bincount(image.ravel() + 1, minlength=102))]
                seen.append(index)
                assert length == len(LAYOUT.encode(written[index][1]))
                turns |= {
                    k for k in range(8) if np.array_equal(Sample(*written[index]).turned(k).image, image)
                }
        assert len(set(seen)) == len(seen) == 10
    assert turns == set(range(8))


def test_batches_hold_samples_of_similar_length(folder):
    samples = SampleFolder(folder)
    spread = [
        int(np.ptp(batch.lengths.numpy())) for batch in itertools.islice(batches(samples, collated, 2, 0), 5)
    ]
    assert max(spread) <= 6  # lengths grow by 3: neighbours, one left out among them at most


def test_too_few_samples_for_a_batch_are_said(folder):
    with pytest.raises(PlanError, match=f"{COUNT} samples do not fill a batch of 12"):
        next(batches(SampleFolder(folder), collated, 12, seed=0))


# Drawing -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    path = write_plan(tmp_path_factory.mktemp("plans") / "house" / "floor.xml")
    return FloorFile(path, "house", "train")


@pytest.fixture
def hopeless(tmp_path):
    """A floor of a space too narrow for a robot."""
    return FloorFile(write_plan(tmp_path / "shed" / "narrow.xml", rooms=1, depth_m=1.0), "shed", "train")


@pytest.fixture
def _workers_are_threads(monkeypatch):
    """Processes would import torch anew, for seconds each; what they do stays the same."""
    monkeypatch.setattr(
        dataset, "multiprocessing", SimpleNamespace(get_context=lambda _: SimpleNamespace(Pool=ThreadPool))
    )


def test_a_task_draws_what_its_seed_says(floor):
    first, again = (draw_many(Draw((floor, floor), 3, 20.0)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        image, walls, ways = one
        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))
        assert ways.shape == (3, POINTS, POINTS)
        states = unpack(image)
        assert set(np.unique(states)) == {-1, 0, 100}
        assert walls.dtype == np.uint8
        seen = rasterise(walls.reshape(-1, 2, 2).astype(float)) & (states == 0)
        assert not seen.any()  # only what was not seen free is to be predicted
    assert not np.array_equal(first[0][0], first[1][0])


@pytest.mark.usefixtures("_workers_are_threads")
def test_prepared_samples_do_not_depend_on_the_number_of_workers(tmp_path, floor, monkeypatch):
    monkeypatch.setattr(dataset, "_CHUNK", 2)
    for workers in (1, 3):
        prepare(tmp_path / str(workers), [floor], 5, 20.0, seed=1, workers=workers)
    one, three = (SampleFolder(tmp_path / str(workers)) for workers in (1, 3))
    assert len(one) == len(three) == 5
    for index in range(5):
        assert np.array_equal(one[index].image, three[index].image)
        assert np.array_equal(one[index].walls, three[index].walls)
        assert np.array_equal(one[index].ways, three[index].ways)


@pytest.mark.usefixtures("_workers_are_threads")
def test_a_floor_without_a_viewpoint_is_replaced_by_its_neighbour(tmp_path, floor, hopeless, capsys):
    prepare(tmp_path / "samples", [hopeless, floor], 4, 20.0, seed=1, workers=1)
    assert len(SampleFolder(tmp_path / "samples")) == 4
    said = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert len(said) == 1
    assert "narrow" in said[0]


@pytest.mark.usefixtures("_workers_are_threads")
def test_a_building_without_viewpoints_does_not_end_the_drawing(tmp_path, floor, monkeypatch):
    monkeypatch.setattr(dataset, "_CHUNK", 1)
    sheds = [
        FloorFile(write_plan(tmp_path / "shed" / f"{level}.xml", rooms=1, depth_m=1.0), "shed", "train")
        for level in range(4)
    ]
    prepare(tmp_path / "samples", [*sheds, floor], 5, 20.0, seed=1, workers=1)
    assert len(SampleFolder(tmp_path / "samples")) == 5


@pytest.mark.usefixtures("_workers_are_threads")
def test_a_failure_leaves_no_folder_behind(tmp_path, hopeless):
    with pytest.raises(PlanError, match="no viewpoint on this floor"):
        prepare(tmp_path / "samples", [hopeless], 3, 20.0, seed=1, workers=1)
    assert not (tmp_path / "samples").exists()


@pytest.mark.usefixtures("_workers_are_threads")
def test_one_floor_without_a_viewpoint_does_not_end_the_drawing(tmp_path, floor, hopeless, monkeypatch):
    monkeypatch.setattr(dataset, "_CHUNK", 2)  # 64 of 32,000 samples: with 140 floors every third task
    prepare(tmp_path / "samples", [hopeless, floor], 4, 20.0, seed=1, workers=1)


@pytest.fixture
def drawings(monkeypatch):
    """Counts how often samples are drawn, into folders that are whole after it."""
    drawn = []

    def draw(folder, floors, count, horizon_m, seed, workers):
        drawn.append((count, horizon_m, seed))
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "offsets.npy", np.zeros(1, np.int64))
        made_from = dataset._made_from(floors, count, horizon_m, seed)
        (folder / "settings.json").write_text(json.dumps(made_from))

    monkeypatch.setattr(dataset, "prepare", draw)
    return drawn


def test_samples_are_drawn_once_and_anew_for_other_plans_or_settings(tmp_path, drawings, capsys):
    own = write_plan(tmp_path / "house" / "own.xml")
    floors = [FloorFile(own, "house", "train")]

    def again(count=5, horizon_m=20.0, seed=1):
        prepare_once(tmp_path / "samples", lambda: floors, count, horizon_m, seed, 1)
        return len(drawings)

    assert [again(), again(), again(seed=2), again(seed=2, horizon_m=12.0)] == [1, 1, 2, 3]
    assert again(count=6) == 4
    assert again(count=6) == 4
    write_plan(own, rooms=2)
    assert again(count=6) == 5
    assert "other plans or settings" in "".join(capsys.readouterr())


def test_samples_that_do_not_say_what_they_are_stay_with_a_line(tmp_path, drawings, capsys):
    np.save(tmp_path / "offsets.npy", np.zeros(1, np.int64))
    prepare_once(tmp_path, list, 5, 20.0, 1, 1)
    assert drawings == []
    assert "unknown settings; delete the folder" in "".join(capsys.readouterr())
