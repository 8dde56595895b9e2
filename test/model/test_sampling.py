"""Drawing: nucleus by oracle, reproducible and grammatical sequences, the network's own distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_likelihood import nats, remember, start_probability, state_and_canvas
from tiny_model import make_batch, random_image, random_samples, tiny_config, tiny_network

from floorgent_ros.model.decoder import BLOCKED
from floorgent_ros.model.sampling import Nucleus, Sweep, sample, uniforms
from floorgent_ros.model.sequence import DOWN, FREE, LEFT, RIGHT, UP

GRID = (torch.arange(4096) + 0.5) / 4096  # uniforms that stand for all of [0, 1)
NOTHING = np.zeros((0, 5), np.int64)


@pytest.fixture(scope="module")
def network():
    return tiny_network(walls_wanted=3.0)


@pytest.fixture(scope="module")
def image():
    return random_image(np.random.default_rng(0))


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


class RecordingSweep(Sweep):
    """Keeps the trunk states and the canvases that it draws from."""

    def _advance(self):
        state = super()._advance()
        self.before = [*getattr(self, "before", []), (state, self.canvas)]
        return state


def sweep(network, image, count, nucleus=Nucleus(1.0), kind=Sweep):  # noqa: B008 (frozen)
    memory = remember(network, image).expand(count)
    return kind(network.decoder, memory, count, network.config.max_segments, nucleus)


def drawn_rows(network, image, count, seed, nucleus=Nucleus(1.0)):  # noqa: B008
    """Rows (K, 5) of each completion, as integers before they become levels."""
    rows = (
        sweep(network, image, count, nucleus).run(uniforms(count, network.config.max_segments, seed)).numpy()
    )
    return [row[row[:, 0] >= 0] for row in rows]


# Nucleus -------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-6, 6, width=32), min_size=1, max_size=9),
    st.floats(0.05, 1.0),
    st.sampled_from([0.3, 1.0, 2.0]),
)
def test_nucleus_keeps_the_smallest_set_that_reaches_top_p(logits, top_p, temperature):
    scaled = np.array(logits, np.float64) / temperature
    probability = np.exp(scaled - scaled.max())
    probability /= probability.sum()
    order = np.argsort(-probability, kind="stable")
    reached = probability[order].cumsum()
    kept = order[: int(np.argmax(reached >= min(top_p, reached[-1]) - 1e-9)) + 1]
    expected = np.zeros(len(logits))
    expected[kept] = probability[kept] / probability[kept].sum()
    picked = Nucleus(top_p, temperature).pick(torch.tensor([logits]).expand(len(GRID), -1), GRID)
    share = np.bincount(picked.numpy(), minlength=len(logits)) / len(GRID)
    near_a_tie = np.abs(reached - top_p).min() < 1e-5 or np.diff(np.sort(probability)).min(initial=1) < 1e-5
    if near_a_tie:  # which of equals is kept is open, how much is not
        share, expected = np.sort(share), np.sort(expected)
        assert len(set(picked.tolist())) <= len(kept) + 1
    else:
        assert np.abs(share - expected).max() < 2 / len(GRID)


def test_nucleus_of_one_keeps_everything_and_follows_the_probabilities():
    probability = torch.tensor([0.5, 0.25, 0.125, 0.125])
    picked = Nucleus(1.0).pick(probability.log().expand(len(GRID), -1), GRID)
    assert np.bincount(picked.numpy()).tolist() == [2048, 1024, 512, 512]


@pytest.mark.parametrize("nucleus", [Nucleus(1e-9), Nucleus(1.0, 1e-3)])
def test_tiny_top_p_or_temperature_is_greedy(nucleus):
    logits = torch.randn(len(GRID), 7).argsort(-1).float()  # apart by at least 1
    assert torch.equal(nucleus.pick(logits, GRID), logits.argmax(-1))


def test_what_is_blocked_is_never_picked_not_even_by_extreme_uniforms():
    logits = torch.tensor([BLOCKED, 0.0, BLOCKED, -9.0]).expand(3, -1)
    extremes = torch.tensor([0.0, 0.5, 1 - 2**-24])
    assert Nucleus(1.0).pick(logits, extremes).tolist() == [1, 1, 3]
    assert Nucleus(0.5).pick(logits, extremes).tolist() == [1, 1, 1]


# Reproducibility -----------------------------------------------------------------------------------------


def test_uniforms_of_a_completion_depend_on_seed_and_its_number_only():
    eight = uniforms(8, 5, seed=7)
    assert eight.shape == (5, 5, 8)
    assert eight.min() >= 0
    assert eight.max() < 1
    assert torch.equal(uniforms(3, 5, seed=7), eight[..., :3])
    assert torch.equal(uniforms(8, 2, seed=7), eight[:2])
    assert not torch.equal(uniforms(8, 5, seed=8), eight)
    assert len(torch.unique(eight)) == eight.numel()


def test_same_seed_same_sample_other_seed_another(network, image):
    first, again, other = (sample(network, image, 4, seed) for seed in (11, 11, 12))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    assert not np.array_equal(first[0], first[1])


def test_a_completion_does_not_depend_on_how_many_are_drawn(network, image):
    eight = sample(network, image, 8, seed=3)
    for count in (1, 2, 5):
        fewer = sample(network, image, count, seed=3)
        assert len(fewer) == count
        assert all(np.array_equal(a, b) for a, b in zip(fewer, eight, strict=False))


def test_greedy_completions_are_all_the_same_whatever_the_seed(network, image):
    drawn = [walls for seed in (0, 1) for walls in sample(network, image, 3, seed, Nucleus(1e-6))]
    assert len(drawn[0]) > 0
    assert all(np.array_equal(walls, drawn[0]) for walls in drawn)


# Grammar -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(network):
    with torch.inference_mode():
        return [
            rows
            for seed in range(6)
            for rows in drawn_rows(network, random_image(np.random.default_rng(seed)), 32, seed)
        ]


def test_sequences_ascend_and_are_no_longer_than_the_limit(network, many):
    lengths = {len(rows) for rows in many}
    assert len(lengths) > 3
    assert max(lengths) <= network.config.max_segments
    for rows in many:
        place = rows[:, 0] * network.config.patch**2 + rows[:, 1]
        assert np.all(np.diff(place) >= 0)


def test_walls_lie_in_the_window_and_straight_ones_are_straight(network, many):
    layout, rows = network.decoder.layout, np.concatenate(many)
    levels = layout.decode(rows)
    assert set(rows[:, 2]) == {RIGHT, UP, LEFT, DOWN, FREE}
    assert levels.min() >= 0
    assert levels.max() < layout.levels
    dx, dy = levels[:, 2] - levels[:, 0], levels[:, 3] - levels[:, 1]
    for kind, along, across, sign in (
        (RIGHT, dx, dy, 1),
        (LEFT, dx, dy, -1),
        (UP, dy, dx, 1),
        (DOWN, dy, dx, -1),
    ):
        drawn = rows[:, 2] == kind
        assert np.all(across[drawn] == 0)
        assert np.all(sign * along[drawn] > 0)  # so the ends differ, too


def test_walls_from_the_windows_rim_never_leave_it(network, image):
    """Force the most difficult starts: every cell of the outermost patches, every direction."""
    layout, cells = network.decoder.layout, network.config.patch**2
    state = torch.randn(cells, network.config.width)
    for patch in (0, layout.side - 1, layout.patches - layout.side, layout.patches - 1):
        step = sweep(network, image, cells)
        patches = torch.full((cells,), patch)
        start = step._levels(patches, torch.arange(cells))
        possible = step._possible_kinds(torch.zeros(cells, 5), start) > BLOCKED / 2
        assert (~possible).sum(0).max() == network.config.patch  # along each rim the way out is closed
        assert bool(possible[:, FREE].all())
        for kind in (RIGHT, UP, LEFT, DOWN):
            allowed = possible[:, kind]
            _, _, end = step._end(
                state,
                torch.full((cells,), kind),
                patches,
                torch.arange(cells),
                start,
                uniforms(cells, 1, kind)[0],
            )
            moved = (end - start)[allowed]
            assert int(end[allowed].min()) >= 0
            assert int(end[allowed].max()) < layout.levels
            axis, sign = {RIGHT: (0, 1), UP: (1, 1), LEFT: (0, -1), DOWN: (1, -1)}[kind]
            assert bool((sign * moved[:, axis] > 0).all())
            assert bool((moved[:, 1 - axis] == 0).all())


def test_free_walls_are_neither_points_nor_straight(image):
    network = tiny_network(tiny_config(16))
    count = 2048
    step = sweep(network, image[:16, :16], count)
    own, patches = torch.arange(count) % 64, torch.arange(count) % 4
    start = step._levels(patches, own)
    numbers = torch.rand(5, count, generator=torch.Generator().manual_seed(0))
    kinds, state = torch.full((count,), FREE), torch.randn(count, network.config.width)
    _, _, end = step._end(state, kinds, patches, own, start, numbers)
    assert not bool((start == end).any())  # in either coordinate


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_draws_walls_in_the_window(image, dtype):
    network = tiny_network(walls_wanted=3.0).to(dtype)
    drawn = sample(network, image, 8, seed=0)
    levels = np.concatenate(drawn)
    assert len(levels) > 8
    assert levels.min() >= 0
    assert levels.max() < network.config.levels
    assert np.any(levels[:, :2] != levels[:, 2:], axis=1).all()


def test_each_sequence_stops_for_itself(network, image):
    rows = sweep(network, image, 16).run(uniforms(16, network.config.max_segments, 5))
    stopped = rows[..., 0] < 0
    assert bool((rows[stopped] == -1).all())
    assert bool((stopped[:, 1:] >= stopped[:, :-1]).all())  # once stopped, always stopped
    lengths = (~stopped).sum(1)
    assert len(torch.unique(lengths)) > 3


def test_drawing_ends_at_the_limit(image):
    network = tiny_network(walls_wanted=50.0)  # never stops by itself
    assert [len(walls) for walls in sample(network, image, 3, seed=0)] == [network.config.max_segments] * 3


def test_no_wall_at_all_is_an_answer(image):
    network = tiny_network(walls_wanted=-50.0)
    drawn = sample(network, image, 3, seed=0)
    assert [walls.shape for walls in drawn] == [(0, 4)] * 3


# Likelihood ----------------------------------------------------------------------------------------------


def test_cached_states_are_the_teacher_forced_ones(network, image):
    count = 6
    steps = sweep(network, image, count, kind=RecordingSweep)
    rows = steps.run(uniforms(count, network.config.max_segments, 9)).numpy()
    sequences = [row[row[:, 0] >= 0] for row in rows]
    assert max(map(len, sequences)) > 5
    layout = network.decoder.layout
    batch = make_batch([(image, sequence) for sequence in sequences], layout)
    states, canvas = network._states(batch, remember(network, image).expand(count))
    for index, sequence in enumerate(sequences):
        for step, (state, marks) in enumerate(steps.before[: len(sequence) + 1]):
            assert torch.allclose(state[index], states[index, step], atol=1e-4)
            assert torch.equal(marks[index], canvas[index, step].bool())


def test_start_probabilities_are_the_hazards_of_the_sweep(network, image):
    for seed, length in enumerate((0, 1, 5)):
        ((_, rows),) = random_samples(network.decoder.layout, [length], seed)
        step = forced(network, image, rows)
        log_probability = step._start_log_probability(step._advance())[0]
        expected = start_probability(network, remember(network, image), rows)
        assert log_probability.shape == expected.shape
        assert log_probability.exp().numpy() == pytest.approx(expected, abs=1e-6)
        assert float(log_probability.exp().sum()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("odds", [-1.5, 2.0])
def test_wall_log_odds_are_added_to_every_hazard(network, image, odds):
    ((_, rows),) = random_samples(network.decoder.layout, [2], 8)
    *starts, stop = start_probability(network, remember(network, image), rows)
    left = np.append(np.cumsum([stop, *starts[::-1]])[::-1][:-1], stop)  # probability of passing all before
    hazards = np.array(starts) / left[:-1]
    shifted = 1 / (1 + (1 - hazards) / np.maximum(hazards, 1e-300) * np.exp(-odds))
    passed = np.append(1, np.cumprod(1 - shifted))
    step = forced(network, image, rows)
    step.nucleus = Nucleus(1.0, wall_log_odds=odds)
    found = step._start_log_probability(step._advance())[0].exp().numpy()
    assert found == pytest.approx(np.append(passed[:-1] * shifted, passed[-1]), abs=1e-5)
    assert found[: rows[-1, 0]].max(initial=0) == 0  # what has been passed stays passed


def forced(network, image, rows):
    """A sweep of one sequence that was made to draw rows."""
    step, layout = sweep(network, image, 1), network.decoder.layout
    for row in rows:
        step._advance()
        rank, cell, kind = torch.from_numpy(row[:3, None])
        step._remember(rank, cell, kind, torch.from_numpy(layout.decode(row)))
    return step


def test_likelihood_by_the_samplers_steps_is_the_networks(network, image):
    """Walk the sampler along a sequence and add up the logits that it would draw from."""
    for seed in range(3):
        ((_, rows),) = random_samples(network.decoder.layout, [8], seed)
        memory, layout = remember(network, image), network.decoder.layout
        total = 0.0
        step = sweep(network, image, 1)
        for row in [*rows, None]:
            state = step._advance()
            starts = step._start_log_probability(state)[0]
            total -= float(starts[layout.patches if row is None else row[0]])
            if row is None:
                break
            total -= sum(_rest(network, memory, step, state, row))
            rank, cell, kind = torch.from_numpy(row[:3, None])
            step._remember(rank, cell, kind, torch.from_numpy(layout.decode(row)))
        assert total == pytest.approx(float(network(make_batch([(image, rows)], layout)).nats), rel=1e-5)
        assert total == pytest.approx(nats(network, image, rows), rel=1e-5)


def _rest(network, memory, step, state, row):
    """Log probabilities of a wall's last four integers, by the sampler's calls but without its grammar."""
    decoder = network.decoder
    rank, cell, kind, end_step, end_cell = torch.from_numpy(row[:, None])
    patch = decoder.patch_of_rank[rank]
    state, logits = decoder.start_cell(state, patch, step.batch, memory)
    if rank == step.current:
        logits = logits.masked_fill(torch.arange(64) < step.cell, BLOCKED)
    yield float(logits.log_softmax(-1)[0, cell])
    pen = decoder.look_up(step._levels(patch, cell)[:, None], memory.pen)[:, 0]
    state, logits = decoder.kind(state, cell, pen)
    yield float(logits.log_softmax(-1)[0, kind])
    if row[2] == FREE:
        state, logits = decoder.end_anywhere(state, step.batch, memory)
        end_patch, line = end_step, None
    else:
        state, logits = decoder.end(state, kind, patch, step.canvas, step.batch, memory)
        end_patch, line = decoder.lines[kind, patch, end_step], decoder.cells_along(kind, cell)
    yield float(logits.log_softmax(-1)[0, end_step])
    logits = decoder.end_cell(state, end_patch, line, step.batch, memory)
    yield float(logits.log_softmax(-1)[0, end_cell])


def test_first_walls_are_drawn_from_the_networks_distribution(image):
    """Draws with top_p 1 against the probabilities of start, cell and kind, computed for every start cell."""
    network = tiny_network(tiny_config(16), seed=4, walls_wanted=2.0)
    image = image[:16, :16]
    layout, count = network.decoder.layout, 8000
    step = sweep(network, image, count)
    rows = step.step(torch.rand(5, count, generator=torch.Generator().manual_seed(1))).numpy()
    started = step.alive.numpy()
    memory = remember(network, image)
    starts = start_probability(network, memory, NOTHING)
    drawn = np.bincount(np.where(started, rows[:, 0], layout.patches), minlength=layout.patches + 1) / count
    assert_frequencies(drawn, starts, count)
    for rank in range(layout.patches):
        here = started & (rows[:, 0] == rank)
        joint = cell_and_kind_probability(network, memory, rank)
        drawn = np.zeros_like(joint)
        np.add.at(drawn, (rows[here, 1], rows[here, 2]), 1 / here.sum())
        assert_frequencies(drawn, joint, here.sum())
        assert_frequencies(drawn.sum(0), joint.sum(0), here.sum())


def cell_and_kind_probability(network, memory, rank):
    """(P², KINDS): probability of a first wall's cell and kind in a start patch; none leaves the window."""
    decoder, cells = network.decoder, torch.arange(64)
    state, _ = state_and_canvas(network, memory, NOTHING)
    patch = decoder.patch_of_rank[torch.full((64,), rank)]
    nobody = torch.zeros(64, dtype=torch.int64)
    after, logits = decoder.start_cell(state.expand(64, -1), patch, nobody, memory)
    start = torch.stack([patch % 2 * 8 + cells % 8, patch // 2 * 8 + cells // 8], -1)
    _, kinds = decoder.kind(after, cells, decoder.look_up(start[None], memory.pen)[0])
    kinds = kinds.double().softmax(-1).numpy()
    x, y = start.numpy().T
    kinds *= np.stack([x < 15, y < 15, x > 0, y > 0, x >= 0], -1)
    return logits[0].double().softmax(-1).numpy()[:, None] * kinds / kinds.sum(-1, keepdims=True)


def assert_frequencies(drawn, probability, count):
    """Pearson's chi-squared within five deviations of its mean, and nothing that cannot be."""
    assert np.all(drawn[probability == 0] == 0)
    possible = probability > 0
    statistic = count * ((drawn - probability)[possible] ** 2 / probability[possible]).sum()
    freedom = possible.sum() - 1
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)
