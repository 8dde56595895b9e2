"""The whole pipeline with a small random network: what is published follows from what is drawn and seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tiny_model import tiny_config, tiny_network

from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import CheckpointError, ConfigError, MapError
from floorgent_ros.geometry.assumptions import unknown_is_free, unknown_is_wall
from floorgent_ros.geometry.distance import dilate, distance_field, start_cell
from floorgent_ros.geometry.doors import Ways, open_doors
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.model.checkpoint import save_checkpoint
from floorgent_ros.model.critic import keep
from floorgent_ros.predictor import DistancePredictor, distance_field_of

SETTINGS = PredictorSettings(
    completions=4, candidates=12, seed=5, top_p=1.0, inflation_radius_m=0.45, detour_m=0.0
)
INSIDE = (3.0, 2.0)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    config = tiny_config(256, layers=1)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_checkpoint(path, tiny_network(config).state_dict(), config)
    return path


@pytest.fixture(scope="module")
def predictor(path):
    return DistancePredictor.from_checkpoint(path, device="cpu", settings=SETTINGS)


def room(origin=(0.0, 0.0), yaw=0.0):
    """8 m × 6 m of free cells between walls, half of one wall and all beyond it not seen; 0.05 m cells."""
    cells = np.full((120, 160), FREE, np.int8)
    cells[:2] = cells[-2:] = cells[:, :2] = cells[:, -2:] = OCCUPIED
    cells[40:, 120:] = UNKNOWN
    return OccupancyMap(cells, 0.05, origin, yaw)


def block():
    """A pillar of 5 m × 5 m in free space."""
    cells = np.full((200, 200), FREE, np.int8)
    cells[50:150, 50:150] = OCCUPIED
    return OccupancyMap(cells, 0.05)


def drawing(predictor, **changes):
    """The same predictor without a critic, so that what is drawn is kept."""
    return DistancePredictor(predictor.network, settings=dataclasses.replace(SETTINGS, **changes))


@pytest.fixture(scope="module")
def field(predictor):
    return predictor.predict(room(), INSIDE)


@pytest.fixture(scope="module")
def turned(predictor):
    """The room with its map's axes turned by 0.4 rad: the network sees it in its walls' direction."""
    grid = room((-2.0, 1.0), 0.4)
    x, y = grid.to_frame((60.0, 40.0))
    return predictor.predict(grid, (float(x), float(y)))


def recomputed(field, inflation_radius_m):
    """Distance, and the sorted fields of all completions, from completions, observation and inflation alone.

    Decisions 3 and 5 written out.
    """
    states, found = field.observation.states, []
    for walls in field.completions:
        guessed = dilate(rasterise_metres(walls, field.observation.window), inflation_radius_m)
        blocked = dilate(states == OCCUPIED, inflation_radius_m) | (guessed & (states != FREE))
        start = start_cell(blocked)
        found.append(np.full(states.shape, np.inf) if start is None else distance_field(blocked, start))
    ordered, count = np.sort(found, axis=0), len(found)
    first, second = ordered[-(-count // 2) - 1], ordered[count // 2]
    distance = np.where(np.isfinite(second), (first + second) / 2, first).astype(np.float32)
    return np.where(states == OCCUPIED, np.float32(np.nan), distance), ordered


def searched(field):
    """Distances of each completion."""
    return np.stack([distance_field(cells, start_cell(cells)) for cells in field.blocked])


@pytest.mark.parametrize("name", ["field", "turned"])
def test_distance_is_what_completions_observation_and_inflation_say(name, request):
    field = request.getfixturevalue(name)
    distance, found = recomputed(field, SETTINGS.inflation_radius_m)
    assert np.array_equal(field.distance, distance, equal_nan=True)
    assert np.array_equal(field.reach_probability, np.isfinite(found).mean(0).astype(np.float32))
    assert 0 < field.reach_probability[field.observation.states == UNKNOWN].mean() < 1


def test_shapes_types_and_frames(field):
    assert len(field.completions) == SETTINGS.completions
    for walls in field.completions:
        assert walls.dtype == np.float32
        assert walls.shape[1:] == (2, 2)
        assert len(walls) > 0
        assert np.abs(walls - INSIDE).max() <= 20
    for name, dtype in {
        "distance": np.float32,
        "spread": np.float32,
        "reach_probability": np.float32,
        "occupancy": np.int8,
    }.items():
        grid = getattr(field, name)
        assert (grid.shape, grid.dtype) == ((256, 256), dtype)
    assert field.origin == (INSIDE[0] - 20, INSIDE[1] - 20)
    assert field.source == INSIDE
    assert field.horizon_m == tiny_config(256).horizon_m
    assert field.seed == SETTINGS.seed
    assert list(field.timings) == [
        "observe",
        "complete",
        "trim",
        "rasterise",
        "distance",
        "choose",
        "summarise",
    ]
    assert min(field.timings.values()) > 0
    assert field.source_note == ""


def test_what_is_kept_was_drawn_and_errs_least_in_the_critics_eyes(predictor, field):
    every = predictor.predict(room(), INSIDE, completions=SETTINGS.candidates)
    assert "choose" not in every.timings
    drawn = [walls.tobytes() for walls in every.completions]
    kept = [drawn.index(walls.tobytes()) for walls in field.completions]
    assert kept == sorted(kept)
    assert kept == keep(predictor.critic, field.observation, searched(every), SETTINGS.completions).tolist()
    assert kept != list(range(SETTINGS.completions))


@pytest.mark.parametrize("candidates", [0, 4])
def test_without_further_candidates_the_first_are_kept(predictor, candidates):
    settings = dataclasses.replace(SETTINGS, candidates=candidates)
    few = DistancePredictor(predictor.network, settings=settings, critic=predictor.critic)
    none = DistancePredictor(predictor.network, settings=SETTINGS)
    fields = [one.predict(room(), INSIDE) for one in (few, none)]
    assert np.array_equal(fields[0].distance, fields[1].distance, equal_nan=True)
    assert len(fields[1].completions) == SETTINGS.completions


def test_completions_of_a_turned_map_lie_in_the_map_frame(turned):
    assert turned.observation.frame.angle == pytest.approx(0.4, abs=0.05)
    assert turned.observation.window.angle == 0.0
    levels = turned.observation.frame.to_cell(np.concatenate(turned.completions)) - 0.5
    assert np.abs(levels - np.round(levels)).max() < 1e-3  # the network's levels, turned back
    assert levels.min() >= -1e-3
    assert levels.max() <= 255 + 1e-3


def test_no_number_exactly_where_a_wall_was_observed(field):
    observed = field.observation.states == OCCUPIED
    assert observed.any()
    assert np.array_equal(np.isnan(field.distance), observed)


def test_predicted_walls_block_nothing_that_was_seen_free(predictor):
    free = PredictorSettings(completions=4, inflation_radius_m=PredictorSettings.inflation_radius_m)
    found = DistancePredictor(predictor.network, settings=free).predict(room(), INSIDE)
    states = found.observation.states
    cautious, null = unknown_is_wall(states), unknown_is_free(states)
    there = states != OCCUPIED
    assert np.isfinite(cautious[there]).any()
    assert np.all(found.distance[there] <= cautious[there].astype(np.float32))
    assert np.all(found.distance[there] >= null[there].astype(np.float32))
    assert np.any(found.distance[there] > null[there].astype(np.float32))  # they do block what is unknown


def test_spread_is_half_the_middle_eighty_percent(field):
    _, found = recomputed(field, SETTINGS.inflation_radius_m)
    everywhere = np.isfinite(found).all(0)
    low, high = np.quantile(found[:, everywhere], (0.1, 0.9), axis=0)
    assert np.allclose(field.spread[everywhere], (high - low) / 2, atol=1e-5)
    assert field.spread[everywhere].max() > 1
    assert np.isinf(field.spread[~everywhere]).all()  # of four values the 90 % point needs the last


def test_occupancy_is_the_share_of_completions_beside_what_was_seen(field):
    states = field.observation.states
    drawn = [rasterise_metres(walls, field.observation.window) for walls in field.completions]
    share = np.rint(100 * np.mean(drawn, axis=0))
    assert np.array_equal(field.occupancy[states == UNKNOWN], share[states == UNKNOWN])
    assert np.array_equal(field.occupancy[states != UNKNOWN], states[states != UNKNOWN])
    assert set(np.unique(field.occupancy)) >= {0, 25, 100}


def test_same_seed_same_result_and_the_arguments_go_before_the_settings(predictor, field):
    again = predictor.predict(room(), INSIDE, seed=SETTINGS.seed, completions=SETTINGS.completions)
    other = predictor.predict(room(), INSIDE, seed=6)
    every, fewer = (drawing(predictor).predict(room(), INSIDE, completions=count) for count in (4, 2))
    for name in ("distance", "spread", "reach_probability", "occupancy"):
        assert np.array_equal(getattr(again, name), getattr(field, name), equal_nan=True)
    assert all(np.array_equal(a, b) for a, b in zip(again.completions, field.completions, strict=True))
    assert not np.array_equal(other.distance, field.distance, equal_nan=True)
    assert other.seed == 6
    assert [len(walls) for walls in fewer.completions] == [len(walls) for walls in every.completions[:2]]


def test_one_completion_is_its_own_median(predictor):
    found = predictor.predict(room(), INSIDE, completions=1)
    distance, (only,) = recomputed(found, SETTINGS.inflation_radius_m)
    reached = np.isfinite(only)
    assert np.array_equal(found.distance, distance, equal_nan=True)
    assert set(np.unique(found.reach_probability)) == {0.0, 1.0}
    assert np.all(found.spread[reached] == 0)
    assert np.isinf(found.spread[~reached]).all()


def test_a_map_shifted_with_the_viewpoint_gives_the_same_answer(predictor, field):
    shifted = predictor.predict(room(origin=(64.0, -32.0)), (INSIDE[0] + 64, INSIDE[1] - 32))
    assert np.array_equal(shifted.distance, field.distance, equal_nan=True)
    assert shifted.origin == (field.origin[0] + 64, field.origin[1] - 32)
    for moved, walls in zip(shifted.completions, field.completions, strict=True):
        assert np.allclose(moved, walls + np.array([64, -32]), atol=1e-4)


# What is out of the ordinary ------------------------------------------------------------------------------


def test_a_viewpoint_outside_the_map_is_said_and_answered(predictor):
    found = predictor.predict(room(), (-3.0, 2.0))
    assert "viewpoint (-3.00, 2.00) is outside the map" in found.source_note
    assert np.isfinite(found.distance).any()


def test_no_wall_in_sight_is_said_and_answered(predictor):
    found = predictor.predict(OccupancyMap(np.full((60, 60), FREE, np.int8), 0.05), (1.0, 1.0))
    assert found.source_note == "no wall in sight of viewpoint (1.00, 1.00)"
    assert found.distance[128, 128] == 0
    assert not np.isnan(found.distance).any()


def test_a_viewpoint_in_a_walls_inflation_starts_from_the_nearest_open_cell(predictor):
    found = predictor.predict(room(), (0.3, 3.0))
    assert "within the inflation of a wall: the search starts at the nearest open cell" in found.source_note
    row, column = np.unravel_index(np.nanargmin(found.distance), (256, 256))
    assert found.distance[row, column] == 0
    assert 0 < np.hypot(row - 128, column - 128) * 40 / 256 <= 1.0


def test_a_viewpoint_deep_in_a_wall_reaches_nothing(predictor):
    found = predictor.predict(block(), (5.0, 5.0))
    assert "no open cell within 1 m" in found.source_note
    observed = found.observation.states == OCCUPIED
    assert np.isnan(found.distance[observed]).all()
    assert np.isposinf(found.distance[~observed]).all()
    assert not found.reach_probability.any()


def test_notes_are_one_line_when_there_are_several(predictor):
    empty = OccupancyMap(np.full((20, 20), UNKNOWN, np.int8), 0.05)
    note = predictor.predict(empty, (9.0, 9.0)).source_note
    assert "outside the map" in note
    assert "no wall in sight" in note
    assert "\n" not in note


# Set-up --------------------------------------------------------------------------------------------------


def test_the_description_is_one_line_on_weights_size_and_device(predictor, path):
    size = sum(parameter.numel() for parameter in predictor.network.parameters())
    assert predictor.description.startswith(f"{path.name}: {size / 1e6:.1f} M parameters, float32 on cpu")
    assert "\n" not in predictor.description
    assert predictor.device == torch.device("cpu")
    assert not predictor.network.training


def test_settings_and_observation_have_defaults(path):
    predictor = DistancePredictor.from_checkpoint(path, device="cpu")
    assert predictor.settings == PredictorSettings()
    assert predictor.observation.occupied_threshold == 65


@pytest.mark.parametrize("shown", ["field", "turned"])
def test_completions_keep_to_what_is_unseen(shown, request):
    found = request.getfixturevalue(shown)
    observation = found.observation
    for walls in found.completions:
        drawn = rasterise_metres(walls, observation.frame)
        assert not (drawn & (observation.image == FREE)).any()
        assert not (drawn & dilate(observation.image == OCCUPIED, 0.15)).any()


def test_doors_are_opened_in_the_completions_that_are_published(predictor):
    field, found = (drawing(predictor, detour_m=m).predict(room(), INSIDE) for m in (0.0, 3.0))
    observation = found.observation
    for walls, drawn in zip(found.completions, field.completions, strict=True):
        expected = open_doors(drawn, Ways.of(observation.states, 0.45), observation.window, 3.0)
        assert np.array_equal(walls, expected)
    assert any(map(len, field.completions))
    assert sum(map(len, found.completions)) != sum(map(len, field.completions))
    again = distance_field_of(
        room(), observation, found.completions, inflation_radius_m=0.45, seed=5, horizon_m=found.horizon_m
    )
    assert np.array_equal(again.distance, found.distance, equal_nan=True)
    both = np.isfinite(found.distance) & np.isfinite(field.distance)
    assert found.distance[both].mean() < field.distance[both].mean()


def test_sampling_settings_reach_the_drawing(predictor, field):
    def drawn(**changes):
        settings = dataclasses.replace(SETTINGS, **changes)
        found = DistancePredictor(predictor.network, settings=settings).predict(room(), INSIDE)
        return found.completions

    assert sum(map(len, drawn(wall_log_odds=-20.0))) == 0
    assert sum(map(len, drawn(wall_log_odds=-3.0))) < sum(map(len, field.completions))
    for changes in ({"temperature": 0.1}, {"top_p": 0.05}):
        assert not all(np.array_equal(a, b) for a, b in zip(drawn(**changes), field.completions, strict=True))


def test_warming_up_changes_no_answer(path, field):
    predictor = DistancePredictor.from_checkpoint(path, device="cpu", settings=SETTINGS)
    predictor.warm_up()
    assert np.array_equal(predictor.predict(room(), INSIDE).distance, field.distance, equal_nan=True)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_answers_by_the_same_rules(path, precision):
    predictor = DistancePredictor.from_checkpoint(path, device="cpu", precision=precision, settings=SETTINGS)
    assert f"{precision} on cpu" in predictor.description
    found = predictor.predict(room(), INSIDE)
    distance, _ = recomputed(found, SETTINGS.inflation_radius_m)
    assert np.array_equal(found.distance, distance, equal_nan=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "tpu"}, "device = 'tpu'"),
        ({"device": "mps"}, "device = 'mps'"),
        ({"device": ""}, "device = ''"),
        ({"device": "cuda:100"}, "device = 'cuda:100'"),
        ({"device": "cuda:1000"}, "device = 'cuda:1000'"),
        ({"device": "cpu", "precision": "float8"}, "precision = 'float8'"),
    ],
)
def test_a_device_or_precision_that_is_not_there_is_one_line(path, options, said):
    with pytest.raises(ConfigError) as caught:
        DistancePredictor.from_checkpoint(path, **options)
    message = str(caught.value)
    assert message.startswith(said)
    assert ": " in message
    assert "\n" not in message


def test_a_checkpoint_that_is_missing_is_one_line(tmp_path):
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        DistancePredictor.from_checkpoint(tmp_path / "none.safetensors", device="cpu")


@pytest.mark.parametrize("count", [0, -3])
def test_no_completions_are_refused(predictor, count):
    with pytest.raises(ConfigError, match=f"completions = {count}: use at least 1"):
        predictor.predict(room(), INSIDE, completions=count)


@pytest.mark.parametrize("viewpoint", [(np.nan, 0.0), (0.0, np.inf)])
def test_a_viewpoint_that_is_no_place_is_refused(predictor, viewpoint):
    with pytest.raises(MapError) as caught:
        predictor.predict(room(), viewpoint)
    assert "\n" not in str(caught.value)


def test_a_negative_seed_is_refused_in_one_line(predictor):
    with pytest.raises(ConfigError, match="seed = -1"):
        predictor.predict(room(), INSIDE, seed=-1)


def test_a_prediction_can_be_replaced_but_not_changed(field):
    with pytest.raises(dataclasses.FrozenInstanceError):
        field.seed = 3
    assert dataclasses.replace(field, seed=3).seed == 3
