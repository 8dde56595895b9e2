"""The inpainting peers in protocol E4: from painted probabilities to distances by a completion's rules."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_model import tiny_config, tiny_network
from tiny_plan import write_plan

from floorgent_ros.cli import main
from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.evaluation import lidar, peers
from floorgent_ros.evaluation.lidar import LABEL, evaluate, table
from floorgent_ros.evaluation.oracle import oracle
from floorgent_ros.evaluation.peers import COST, COSTS, ENSEMBLE, SHOWN, SINGLE, THRESHOLD, Peers, in_window
from floorgent_ros.geometry import distance as distances
from floorgent_ros.geometry.assumptions import unknown_is_free
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.geometry.observation import observe
from floorgent_ros.model.checkpoint import save_checkpoint
from floorgent_ros.model.inpainting import Inpainter, InpaintingConfig
from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.predictor import DistanceField

pytestmark = pytest.mark.usefixtures("one_thread")

VIEWPOINT = (3.0, 3.0)
CONFIG = InpaintingConfig(widths=(8, 8))


class Painter(Inpainter):
    """Paints what it is given, whatever it sees."""

    def __init__(self, painted):
        super().__init__(CONFIG)
        self.painted = torch.from_numpy(np.asarray(painted, np.float32))

    def logits(self, image):
        return self.painted[None].logit()


def room(yaw=0.0):
    """A room of 6 m × 6 m with three walls; the fourth side was not seen."""
    cells = np.full((120, 120), FREE, np.int8)
    cells[:, :2] = cells[:2] = cells[-2:] = OCCUPIED
    cells[:, 80:] = UNKNOWN
    grid = OccupancyMap(cells, 0.05, yaw=yaw)
    x, y = grid.to_frame((60.0, 60.0))
    return grid, (float(x), float(y))


@pytest.fixture(scope="module")
def seen():
    grid, viewpoint = room()
    return grid, observe(grid, viewpoint)


def striped(column, rows=slice(0, 256), probability=0.9):
    painted = np.full((256, 256), 0.01)
    painted[rows, column] = probability
    return painted


def fields(seen, *painted, threshold=0.5):
    return Peers(tuple(Painter(each) for each in painted), threshold).fields(*seen)


def test_a_painted_wall_blocks_as_a_completion_of_the_same_cells_does(seen):
    _, observation = seen
    painted = striped(170)
    found = fields(seen, painted)
    assert list(found) == [SINGLE, COSTS]
    walls = (painted >= 0.5) & (observation.states == UNKNOWN)
    radius = PredictorSettings.inflation_radius_m
    expected = distances.distance_fields(distances.blocked(observation.states, walls, radius)[None])[0]
    expected[observation.states == OCCUPIED] = np.nan
    assert np.array_equal(found[SINGLE].distance, expected.astype(np.float32), equal_nan=True)
    assert np.isinf(found[SINGLE].distance[128, 200])


def test_below_the_threshold_the_unknown_is_free(seen):
    _, observation = seen
    null = unknown_is_free(observation.states)
    open_cells = observation.states != OCCUPIED
    found = fields(seen, striped(170), threshold=0.95)[SINGLE].distance
    assert np.allclose(found[open_cells], null[open_cells], atol=1e-4)


def test_nothing_is_painted_over_what_was_seen(seen):
    _, observation = seen
    everywhere = Peers.painted(Painter(np.ones((256, 256))), observation) > 0.5
    assert np.array_equal(everywhere, (observation.image == UNKNOWN) & (observation.states == UNKNOWN))


def test_the_ensemble_is_the_median_of_three_distances(seen):
    painted = [striped(170), striped(170, slice(0, 150)), striped(180, slice(100, 256))]
    together = fields(seen, *painted)
    assert list(together) == [SINGLE, ENSEMBLE, COSTS]
    alone = [fields(seen, each)[SINGLE].distance.astype(float) for each in painted]
    middle = np.sort(np.stack(alone), axis=0)[1]
    assert np.array_equal(together[ENSEMBLE].distance, middle.astype(np.float32), equal_nan=True)
    assert np.array_equal(together[SINGLE].distance, alone[0].astype(np.float32), equal_nan=True)
    assert len(np.unique([each[128, 230] for each in alone])) == 3
    assert set(np.unique(together[ENSEMBLE].reach_probability)) <= {np.float32(k / 3) for k in range(4)}


def test_as_a_cost_a_wall_lengthens_the_ways_through_it_and_shuts_none(seen):
    _, observation = seen
    first, second = np.zeros((256, 256)), np.zeros((256, 256))
    first[:, 170:180] = 0.8
    second[:, 170:180] = 0.2
    found = fields(seen, first, second)[COSTS].distance
    null = unknown_is_free(observation.states)
    before, behind = (128, 165), (128, 200)
    assert found[before] == pytest.approx(null[before], abs=1e-3)
    expected = null[behind] + 10 * CELL_M * COST * 0.5  # ten cells of half a wall, straight through
    assert found[behind] == pytest.approx(expected, abs=1e-3)
    assert np.isnan(found[observation.states == OCCUPIED]).all()


def test_what_was_painted_in_turned_axes_stays_at_its_place_in_the_world():
    grid, viewpoint = room(yaw=0.5)
    observation = observe(grid, viewpoint)
    assert abs(observation.frame.angle) > 0.1
    indices = np.arange(256) + 0.5
    centres = np.stack(np.meshgrid(indices, indices), -1)

    def beyond(window):
        """Metres of each cell's centre beyond a slanted line in the world."""
        return window.to_frame(centres) @ (0.6, 0.8) - 1.3

    painted = (beyond(observation.frame) > 0).astype(np.float32)
    turned = in_window(painted, observation)
    distance = beyond(observation.window)
    radius = np.linalg.norm(centres - 128, axis=-1)
    clear = (np.abs(distance) > 0.12) & (radius < 126)  # half a cell's diagonal from the line
    assert np.array_equal(turned[clear], (distance > 0)[clear].astype(np.float32))
    assert turned[0, 0] == 0  # beyond the turned image nothing is painted


def test_a_thin_wall_keeps_its_probability_in_turned_axes():
    grid, viewpoint = room(yaw=0.5)
    observation = observe(grid, viewpoint)
    turned = in_window(striped(140, slice(60, 200), 0.9).astype(np.float32), observation)
    assert (turned == np.float32(0.9)).sum() == pytest.approx(140, rel=0.1)


# Loading -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    paths = []
    for seed in range(3):
        torch.manual_seed(seed)
        paths.append(folder / f"{seed}.safetensors")
        save_checkpoint(paths[-1], Inpainter(CONFIG).state_dict(), CONFIG)
    return paths


def test_peers_are_loaded_in_the_order_given(files):
    loaded = Peers.load(files, 0.4)
    assert (len(loaded.networks), loaded.threshold) == (3, 0.4)
    assert not any(network.training for network in loaded.networks)
    assert not torch.equal(loaded.networks[0].stem.weight, loaded.networks[1].stem.weight)


def test_a_segment_decoder_is_a_peer_by_its_dense_head(tmp_path, seen):
    path = tmp_path / "ours.safetensors"
    save_checkpoint(path, tiny_network(tiny_config(256)).state_dict(), tiny_config(256))
    loaded = Peers.load([path])
    assert list(loaded.fields(*seen)) == [SINGLE, COSTS]


def test_a_network_of_tokens_is_no_peer(tmp_path):
    path = tmp_path / "paper.safetensors"
    config = SequenceConfig(width=16, layers=1, heads=2, feed=16, max_segments=8)
    save_checkpoint(path, SequenceNet(config).state_dict(), config)
    with pytest.raises(CheckpointError) as caught:
        Peers.load([path])
    assert str(caught.value).startswith(f"{path}: architecture 'floorgent-tokens-1'")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.2, float("nan")])
def test_a_threshold_that_is_no_probability_is_said(files, threshold):
    with pytest.raises(ConfigError, match="peer threshold"):
        Peers.load(files, threshold)


def test_where_no_peers_are_shipped_it_is_said(monkeypatch):
    monkeypatch.setattr(peers, "shipped_peers", list)
    with pytest.raises(ConfigError, match="name their checkpoints"):
        Peers.load([])


# The report ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    return FloorFile(write_plan(tmp_path_factory.mktemp("plans") / "a" / "1.xml"), "a", "all")


class OraclePredictor:
    """Knows the plan: the tests' stand-in for a good model."""

    description = "all of it"
    device = torch.device("cpu")

    def __init__(self, field: DistanceField) -> None:
        self.field = field

    def predict(self, grid, viewpoint, *, seed):
        return SimpleNamespace(**(vars(self.field) | {"observation": observe(grid, viewpoint)}))


@pytest.fixture
def predictor(floor):
    return OraclePredictor(oracle(next(lidar.cases(floor)), 20.0))


def test_a_peer_that_paints_nothing_scores_what_the_null_scores(floor, predictor):
    blank = Peers((Painter(np.zeros((256, 256))),) * 3, 0.5)
    report = evaluate(predictor, [floor], [], peers=blank)
    for name in (SINGLE, ENSEMBLE, COSTS):
        for kind in ("scan", "walk"):
            figures = report["peers"][name][kind]
            assert figures["ratio"] == pytest.approx(1, abs=1e-4)
            assert (figures["cases"], figures["win_share"]) == (4, 0)
            assert figures["mae_m"] == pytest.approx(figures["null_mae_m"], abs=1e-4)
    assert report["peer_threshold"] == 0.5


def test_a_peer_that_shuts_everything_is_the_cautious_planner(floor, predictor):
    shut = Peers((Painter(np.ones((256, 256))),), 0.5)
    report = evaluate(predictor, [floor], [], peers=shut)
    figures = report["peers"][SINGLE]["scan"]
    assert figures["falsely_unreachable"] > 0.2
    assert figures["bias_m"] > 0
    assert figures["ratio"] > 1


def test_table_shows_the_peers_beside_the_model(floor, predictor):
    blank = Peers((Painter(np.zeros((256, 256))),) * 2, 0.5)
    report = evaluate(predictor, [floor], [], peers=blank)
    lines = table(report).splitlines()
    for name in (SINGLE, ENSEMBLE, COSTS):
        for key in SHOWN:
            (line,) = [line for line in lines if line[:LABEL].strip() == f"{name} {key}"]
            assert line[LABEL:].split() == [
                f"{report['peers'][name][kind][key]:.3f}" for kind in ("scan", "walk")
            ]
    assert "peer" not in table(evaluate(predictor, [floor], []))


def test_command_judges_the_peers_that_it_is_given(floor, files, predictor, monkeypatch, capsys):
    stand_in = SimpleNamespace(from_checkpoint=lambda *_, **__: predictor)
    monkeypatch.setattr(lidar, "DistancePredictor", stand_in)
    command = ["evaluate", "lidar", "--data", str(floor.path.parent), "--json", "--peers", *map(str, files)]
    assert main(command) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["peers"]) == {SINGLE, ENSEMBLE, COSTS}
    assert report["peer_threshold"] == THRESHOLD
    assert main([*command[:-3], str(files[0]), "--peer-threshold", "0.25"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (set(report["peers"]), report["peer_threshold"]) == ({SINGLE, COSTS}, 0.25)
    assert main([*command, "--peer-threshold", "0"]) == 2
    assert "peer threshold = 0.0" in capsys.readouterr().err
