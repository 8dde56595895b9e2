"""The network's likelihood: exact, normalised, causal, and indifferent to how samples are batched."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from reference_likelihood import nats, remember, start_probability, state_and_canvas
from tiny_model import (
    has_free_and_straight,
    make_batch,
    random_image,
    random_samples,
    tiny_config,
    tiny_network,
)

from floorgent_ros.model.network import Batch
from floorgent_ros.model.sequence import FREE, KINDS, Layout

LENGTHS = [0, 1, 7, 12, 3]


@pytest.fixture(scope="module")
def network():
    return tiny_network()


@pytest.fixture(scope="module")
def layout(network):
    return network.decoder.layout


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def every_wall(layout, rank):
    """(M, 5): all integers a wall from this start patch could have, also those that leave the window."""
    cells = np.arange(layout.patch**2)
    straight = np.meshgrid([rank], cells, range(FREE), range(layout.side), range(layout.patch), indexing="ij")
    free = np.meshgrid([rank], cells, [FREE], range(layout.patches), cells, indexing="ij")
    return np.concatenate([np.stack(part, -1).reshape(-1, 5) for part in (straight, free)])


def next_wall_probability(network, image, prefix, rows):
    """(M,): probability by the network's own loss of each of rows as the next wall, its start patch given."""
    layout, memory = network.decoder.layout, remember(network, image)
    state, canvas = state_and_canvas(network, memory, prefix)
    count, step = len(rows), len(prefix)
    sequence = np.concatenate([np.repeat(prefix[None], count, 0), rows[:, None]], 1)
    levels = np.zeros((count, step + 1, 4), np.int64)
    corner = layout.patch_of_rank[rows[:, 0]]
    levels[:, -1, 0] = corner % layout.side * layout.patch + rows[:, 1] % layout.patch
    levels[:, -1, 1] = corner // layout.side * layout.patch + rows[:, 1] // layout.patch
    unused = torch.zeros(0)
    batch = Batch(unused, torch.from_numpy(sequence), torch.from_numpy(levels), unused, unused)
    parts = network._walls(
        batch,
        state.expand(count, -1),
        canvas.float().expand(count, step + 2, -1, -1),
        torch.arange(count),
        torch.full((count,), step),
        memory.expand(count),
    )
    return torch.stack(list(parts.values())).double().sum(0).neg().exp().numpy()


def test_nats_are_the_sum_over_the_steps(network, layout):
    samples = random_samples(layout, LENGTHS)
    assert any(has_free_and_straight(rows) for _, rows in samples)
    losses = network(make_batch(samples, layout))
    expected = [nats(network, image, rows) for image, rows in samples]
    assert losses.nats.shape == (len(LENGTHS),)
    assert losses.nats.numpy() == pytest.approx(expected, rel=1e-5)
    assert float(sum(losses.parts.values())) == pytest.approx(sum(expected), rel=1e-5)
    assert all(float(part) > 0 for part in losses.parts.values())


def test_walls_in_the_patch_of_the_last_one_are_counted_exactly(network, layout):
    """Starts in one patch exercise the hazard of beginning there again and the ascending cells."""
    walls = np.array([[9, 9, 20, 9], [9, 9, 9, 20], [10, 9, 30, 9], [12, 13, 1, 2], [15, 15, 15, 30]])
    rows = layout.encode(walls)
    assert len(set(rows[:, 0])) < len(rows)
    image = random_image(np.random.default_rng(5))
    assert float(network(make_batch([(image, rows)], layout)).nats) == pytest.approx(
        nats(network, image, rows), rel=1e-5
    )


@pytest.mark.parametrize("walls", [[], [[7, 7, 1, 7]], [[4, 3, 4, 1], [7, 10, 2, 15]]])
def test_probabilities_of_all_next_walls_and_the_stop_sum_to_one(walls):
    network = tiny_network(tiny_config(16), seed=1, walls_wanted=2.0)
    layout = network.decoder.layout
    image = random_image(np.random.default_rng(1), 16)
    prefix = layout.encode(np.array(walls, np.int64).reshape(-1, 4))
    starts = start_probability(network, remember(network, image), prefix)
    total = starts[-1]
    for rank in range(layout.patches):
        rows = every_wall(layout, rank)
        given_start = next_wall_probability(network, image, prefix, rows)
        assert given_start.sum() == pytest.approx(1.0, abs=1e-5)
        total += starts[rank] * given_start.sum()
        if len(prefix):  # what comes before the last wall has no probability
            earlier = rows[:, 1] < prefix[-1, 1]
            assert rank != prefix[-1, 0] or given_start[earlier].max(initial=0.0) == 0.0
            assert rank >= prefix[-1, 0] or starts[rank] == 0.0
    assert 0.01 < starts[-1] < 0.99
    assert total == pytest.approx(1.0, abs=1e-5)


def test_walls_that_leave_the_window_have_no_probability():
    network = tiny_network(tiny_config(16), seed=2)
    layout = network.decoder.layout
    image, nothing = random_image(np.random.default_rng(2), 16), np.zeros((0, 5), np.int64)
    for rank in range(layout.patches):
        rows = every_wall(layout, rank)
        kind, step = rows[:, 2], rows[:, 3]
        straight = kind < FREE
        patch = layout.patch_of_rank[rank]
        outside = straight & (
            layout.lines[np.where(straight, kind, 0), patch, np.where(straight, step, 0)] < 0
        )
        assert outside.any()
        assert next_wall_probability(network, image, nothing, rows)[outside].max() == 0.0


def test_no_later_wall_changes_an_earlier_state_or_logit(network, layout):
    (image, rows), (_, others) = random_samples(layout, [10, 12], seed=3)
    memory = remember(network, image)
    base = make_batch([(image, rows)], layout)
    states, canvas = network._states(base, memory)
    for changed in range(len(rows)):
        mixed = np.concatenate([rows[:changed], others[-(len(rows) - changed) :]])
        new_states, new_canvas = network._states(make_batch([(image, mixed)], layout), memory)
        assert torch.equal(new_canvas[:, : changed + 1], canvas[:, : changed + 1])
        assert torch.allclose(new_states[:, : changed + 1], states[:, : changed + 1], atol=1e-6)
        difference = (new_states[:, changed + 1] - states[:, changed + 1]).abs().max()
        assert difference > 1e-3  # and the changed wall is not overlooked


def test_padding_does_not_change_a_samples_nats(network, layout):
    samples = random_samples(layout, LENGTHS, seed=4)
    alone = torch.cat([network(make_batch([sample], layout)).nats for sample in samples])
    padded = make_batch(samples, layout, padding=5)
    assert torch.allclose(network(padded).nats, alone, rtol=1e-5)
    rows, levels = padded.rows.clone(), padded.levels.clone()
    noise = layout.encode(np.random.default_rng(0).integers(0, layout.levels, (200, 4)))
    for index, length in enumerate(padded.lengths.tolist()):
        rest = rows.shape[1] - length
        rows[index, length:] = torch.from_numpy(noise[:rest])
        levels[index, length:] = torch.from_numpy(layout.decode(noise[:rest]))
    scrawled = dataclasses.replace(padded, rows=rows, levels=levels)
    assert torch.allclose(network(scrawled).nats, alone, rtol=1e-5)


def test_order_of_samples_in_a_batch_does_not_matter(network, layout):
    samples = random_samples(layout, LENGTHS, seed=6)
    order = [3, 0, 4, 2, 1]
    straight = network(make_batch(samples, layout)).nats
    shuffled = network(make_batch([samples[i] for i in order], layout)).nats
    assert torch.allclose(shuffled, straight[order], rtol=1e-5)


def test_every_state_of_every_cell_is_seen(network, layout):
    """Changing any one cell of the image among unknown, free and occupied changes the likelihood."""
    ((image, rows),) = random_samples(layout, [6], seed=7)
    base = float(network(make_batch([(image, rows)], layout)).nats)
    for row, column in [(0, 0), (31, 31), (5, 17), (20, 2)]:
        found = set()
        for state in (-1, 0, 100):
            changed = image.copy()
            changed[row, column] = state
            found.add(float(network(make_batch([(changed, rows)], layout)).nats))
        assert len(found) == 3
        assert base in found


def test_raster_loss_is_the_mean_cross_entropy_of_all_cells(network, layout):
    batch = make_batch(random_samples(layout, [4, 9], seed=8), layout)
    logits = network.encoder(batch.image).raster.double()
    assert logits.shape == batch.raster.shape
    probability = torch.where(batch.raster, logits.sigmoid(), 1 - logits.sigmoid())
    assert float(network(batch).raster) == pytest.approx(float(-probability.log().mean()), rel=1e-5)


def test_every_weight_learns(layout):
    network = tiny_network(seed=3)
    samples = random_samples(layout, [12, 9, 12], seed=9)
    rows = np.concatenate([rows for _, rows in samples])
    assert set(rows[:, 2]) == set(range(KINDS))
    with torch.enable_grad():
        losses = network(make_batch(samples, layout))
        (losses.nats.sum() + losses.raster).backward()
    idle = [name for name, weight in network.named_parameters() if not (weight.grad.abs().sum() > 0)]
    assert idle == []


def test_batch_moves_as_a_whole(layout):
    batch = make_batch(random_samples(layout, [2], seed=0), layout).to("meta")
    assert {getattr(batch, item.name).device.type for item in dataclasses.fields(batch)} == {"meta"}


def test_layout_is_the_configurations():
    assert tiny_network(tiny_config(16)).decoder.layout == Layout(16, 8)
