"""The decoder's pieces against plain recomputation: marks, look-ups, sweep logits, end logits, memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference_likelihood import ONE, remember
from tiny_model import random_image, random_walls, tiny_network

from floorgent_ros.model.decoder import BLOCKED, CELL_KEY, MARKS
from floorgent_ros.model.sequence import DOWN, FREE, LEFT, RIGHT, UP


@pytest.fixture(scope="module")
def network():
    return tiny_network()


@pytest.fixture(scope="module")
def decoder(network):
    return network.decoder


@pytest.fixture
def memory(network):
    with torch.no_grad():
        return remember(network, random_image(np.random.default_rng(0)))


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def test_marks_say_in_which_patches_a_wall_ends_and_runs(decoder):
    layout = decoder.layout
    rows = layout.encode(random_walls(np.random.default_rng(1), 40))
    levels = layout.decode(rows)
    assert {RIGHT, UP, LEFT, DOWN, FREE} == set(rows[:, 2])
    marks = decoder.marks(torch.from_numpy(levels)[None], torch.from_numpy(rows[:, 2])[None])
    assert marks.shape == (1, len(rows), layout.patches, MARKS)
    for (x0, y0, x1, y1), kind, mark in zip(levels.tolist(), rows[:, 2], marks[0].numpy(), strict=True):
        expected = np.zeros((layout.side, layout.side, MARKS), bool)
        expected[y0 // 8, x0 // 8, 0] = expected[y1 // 8, x1 // 8, 0] = True
        for x in range(min(x0, x1), max(x0, x1) + 1):
            expected[y0 // 8, x // 8, 1] |= kind in (RIGHT, LEFT)
        for y in range(min(y0, y1), max(y0, y1) + 1):
            expected[y // 8, x0 // 8, 2] |= kind in (UP, DOWN)
        assert np.array_equal(mark, expected.reshape(-1, MARKS))


def test_features_are_looked_up_where_a_wall_ends(decoder):
    """Bilinear between the centres of the pen's 4 × 4-level cells; beyond the outermost ones, those."""
    pen = torch.from_numpy(np.random.default_rng(2).normal(size=(1, 3, 8, 8)))
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(32), np.arange(32)))
    found = decoder.look_up(torch.from_numpy(np.stack([x, y], -1))[None], pen)[0].numpy()
    column, row = ((np.clip((axis + 0.5) / 4 - 0.5, 0, 7)) for axis in (x, y))
    left, low = (np.minimum(np.floor(axis).astype(int), 6) for axis in (column, row))
    across, up = column - left, row - low
    grid = pen[0].numpy()
    expected = (
        grid[:, low, left] * (1 - across) * (1 - up)
        + grid[:, low, left + 1] * across * (1 - up)
        + grid[:, low + 1, left] * (1 - across) * up
        + grid[:, low + 1, left + 1] * across * up
    )
    assert np.allclose(found, expected.T)


def test_trunk_input_depends_on_every_coordinate_and_on_the_kind(decoder, memory):
    levels = torch.tensor([[[3, 9, 20, 27]]])
    base = decoder.embed(levels, torch.tensor([[FREE]]), memory)
    for index in range(4):
        other = levels.clone()
        other[..., index] += 1
        assert not torch.allclose(decoder.embed(other, torch.tensor([[FREE]]), memory), base, atol=1e-4)
    assert not torch.allclose(decoder.embed(levels, torch.tensor([[UP]]), memory), base, atol=1e-4)


def test_sweep_begins_at_the_last_walls_patch(decoder, memory):
    patches = decoder.layout.patches
    state, canvas = torch.randn(1, 3, 16), torch.zeros(1, 3, patches, MARKS)
    logits = decoder.start(state, canvas, torch.tensor([[-1, 0, 5]]), memory)[0]
    assert logits.shape == (3, patches)
    possible = logits > BLOCKED / 2
    assert possible[0].all()
    assert possible[1].all()
    assert possible[2].tolist() == [rank >= 5 for rank in range(patches)]


def test_beginning_in_the_last_walls_patch_again_is_a_question_of_its_own(decoder, memory):
    state, canvas = torch.randn(1, 1, 16).expand(1, 2, -1), torch.zeros(1, 2, decoder.layout.patches, MARKS)
    current = torch.tensor([[-1, 3]])
    before = decoder.start(state, canvas, current, memory)[0]
    decoder.again_bias += 1.0
    after = decoder.start(state, canvas, current, memory)[0]
    decoder.again_bias -= 1.0
    assert torch.equal(after[0], before[0])  # no wall yet: nothing to be again
    changed = torch.nonzero(after[1] != before[1])[:, 0].tolist()
    assert changed == [3]
    assert float(after[1, 3] - before[1, 3]) == pytest.approx(1.0, abs=1e-4)
    others = torch.arange(decoder.layout.patches) > 3
    assert torch.allclose(before[1, others], before[0, others])


def test_marks_move_the_hazard_of_their_own_patch_alone(decoder, memory):
    state, current = torch.randn(1, 1, 16), torch.tensor([[-1]])
    canvas = torch.zeros(1, 1, decoder.layout.patches, MARKS)
    base = decoder.start(state, canvas, current, memory)[0, 0]
    for mark in range(MARKS):
        marked = canvas.clone()
        marked[..., 6, mark] = 1
        moved = torch.nonzero(decoder.start(state, marked, current, memory)[0, 0] != base)[:, 0].tolist()
        assert moved == [6]


def test_a_straight_wall_ends_in_a_patch_along_its_direction(decoder, memory):
    layout = decoder.layout
    canvas = torch.zeros(1, layout.patches, MARKS, dtype=torch.bool)
    for kind in (RIGHT, UP, LEFT, DOWN):
        for patch in range(layout.patches):
            _, logits = decoder.end(
                torch.randn(1, 16), torch.tensor([kind]), torch.tensor([patch]), canvas, ONE, memory
            )
            inside = (logits[0] > BLOCKED / 2).numpy()
            assert np.array_equal(inside, layout.lines[kind, patch] >= 0)
            assert inside[0]


def test_marks_on_the_way_move_the_end(decoder, memory):
    layout = decoder.layout
    state, kind, patch = torch.randn(1, 16), torch.tensor([RIGHT]), torch.tensor([layout.side])
    canvas = torch.zeros(1, layout.patches, MARKS, dtype=torch.bool)
    _, base = decoder.end(state, kind, patch, canvas, ONE, memory)
    canvas[0, layout.side + 2, 0] = True  # a wall's end two patches to the right
    canvas[0, 0, 0] = True  # and one off the line
    _, marked = decoder.end(state, kind, patch, canvas, ONE, memory)
    assert torch.nonzero(marked[0] != base[0])[:, 0].tolist() == [2]


def test_memory_is_in_rank_order_for_starts_and_in_grid_order_for_ends(network, decoder, memory):
    keys = network.config.key_width
    for rank, patch in enumerate(decoder.layout.patch_of_rank):
        start, end = decoder.start_key(memory.patches[0, patch]), decoder.end_key(memory.patches[0, patch])
        assert torch.allclose(memory.start_keys[0, rank], start[:keys], atol=1e-6)
        assert torch.allclose(memory.start_bias[0, rank], start[keys], atol=1e-6)
        assert torch.allclose(memory.start_marks[0, rank], start[keys + 1 :], atol=1e-6)
        assert torch.allclose(memory.end_keys[0, patch], end[:keys], atol=1e-6)
        assert torch.allclose(memory.end_marks[0, patch], end[keys:], atol=1e-6)


def test_memory_of_many_sequences_is_the_single_one_without_a_copy(memory):
    many = memory.expand(5)
    assert many.patches.shape == (5, *memory.patches.shape[1:])
    assert torch.equal(many.end_keys[3], memory.end_keys[0])
    assert torch.equal(many.cross[1][0][4], memory.cross[1][0][0])
    for name in ("patches", "pen", "start_keys", "start_bias", "start_marks", "end_keys", "end_marks"):
        assert (
            getattr(many, name).untyped_storage().data_ptr()
            == getattr(memory, name).untyped_storage().data_ptr()
        )


def test_every_cell_has_keys_of_its_own_place(decoder, memory):
    layout = decoder.layout
    # [start or end, key, y in the pen's cell, x in it, row, column]
    keys = decoder.cell_keys(memory.pen)[0].unflatten(0, (2, CELL_KEY, 4, 4))
    assert memory.start_cells.shape == memory.end_cells.shape == (1, layout.patches, 64, CELL_KEY)
    for x, y in [(0, 0), (31, 0), (13, 26), (5, 31)]:
        patch, cell = y // 8 * layout.side + x // 8, y % 8 * 8 + x % 8
        own = keys[:, :, y % 4, x % 4, y // 4, x // 4]
        assert torch.equal(memory.start_cells[0, patch, cell], own[0])
        assert torch.equal(memory.end_cells[0, patch, cell], own[1])


def test_a_straight_wall_ends_in_its_own_row_or_column(decoder):
    cell = torch.tensor([2 * 8 + 5])
    row, column = list(range(16, 24)), list(range(5, 64, 8))
    for kind, cells in {RIGHT: row, LEFT: row, UP: column, DOWN: column}.items():
        assert decoder.cells_along(torch.tensor([kind]), cell)[0].tolist() == cells
