"""The whole pipeline without ROS: an occupancy grid and a viewpoint in, predicted distances out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings, PredictorSettings
from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.geometry import distance as distances
from floorgent_ros.geometry.doors import Ways, open_doors
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS, OccupancyMap
from floorgent_ros.geometry.observation import Observation, observe
from floorgent_ros.geometry.searched import Searched
from floorgent_ros.geometry.segments import to_metres, unseen_walls
from floorgent_ros.geometry.threads import in_threads
from floorgent_ros.model.checkpoint import CRITIC, Network, load_checkpoint, shipped
from floorgent_ros.model.critic import Critic
from floorgent_ros.model.inpainting import Inpainter
from floorgent_ros.model.memory import ThriftyCritic, ThriftySampler
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.sampling import Nucleus
from floorgent_ros.stopwatch import Stopwatch

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, eq=False)
class DistanceField:
    """A prediction; all grids are (256, 256), row 0 = lowest y, axes of the map frame.

    distance: float32, m, median over the completions, +inf unreachable, NaN observed occupied.
    spread: float32, m. reach_probability: float32. occupancy: int8, share of completions in which a cell
    is wall × 100, observed cells 100 or 0. completions: N arrays (K, 2, 2) float32 of predicted walls,
    metres, map frame. blocked: (N, 256, 256) bool, each completion's cells that its search cannot enter.
    origin, source: map frame, m. source_note: '' or one line on what was out of the
    ordinary. timings: milliseconds a stage.
    """

    distance: NDArray[np.float32]
    spread: NDArray[np.float32]
    reach_probability: NDArray[np.float32]
    occupancy: NDArray[np.int8]
    completions: list[NDArray[np.float32]]
    observation: Observation
    origin: tuple[float, float]
    source: tuple[float, float]
    seed: int
    horizon_m: float
    blocked: NDArray[np.bool_]
    source_note: str = ""
    timings: dict[str, float] = field(default_factory=dict)


class DistancePredictor:
    """Runs observation, completion and distance; reusable, one call at a time."""

    def __init__(
        self,
        network: Network,
        *,
        name: str = "network",
        settings: PredictorSettings | None = None,
        observation: ObservationSettings | None = None,
        critic: Critic | None = None,
    ) -> None:
        """network: on its device, in its precision and in evaluation mode. critic: None, all are kept."""
        self.network = network
        self.critic = critic
        self.sampler = ThriftySampler(network)
        self._keep = None if critic is None else ThriftyCritic(critic, self.sampler.notes)
        self.name = name
        self.settings = settings or PredictorSettings()
        self.observation = observation or ObservationSettings()

    @classmethod
    def from_checkpoint(
        cls,
        path: str | Path | None = None,
        *,
        device: str = "auto",
        precision: str = "auto",
        settings: PredictorSettings | None = None,
        observation: ObservationSettings | None = None,
    ) -> DistancePredictor:
        """Load a checkpoint, by default the shipped one, and the critic that the settings name.

        device: auto, cpu, cuda or cuda:N. precision: auto, float32, bfloat16 or float16. Raises
        `CheckpointError` or `ConfigError`, one line each.
        """
        chosen = _device(device)
        network, _ = load_checkpoint(path)
        if isinstance(network, Inpainter | Critic):
            cure = "give a FloorGenT checkpoint here"
            if isinstance(network, Inpainter):
                cure = "give it to `floorgent evaluate lidar --peers`, and here a FloorGenT checkpoint"
            architecture = network.config.architecture
            raise CheckpointError(f"{path}: architecture {architecture!r} draws no completions; {cure}")
        network.to(chosen, _precision(precision, chosen))
        name = Path(path).name if path else "the shipped weights"
        critic = load_critic((settings or PredictorSettings()).critic or None).to(chosen)
        return cls(network, name=name, settings=settings, observation=observation, critic=critic)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    @property
    def horizon_m(self) -> float:
        """How far from the viewpoint walls are predicted, m."""
        return self.network.config.horizon_m

    @property
    def description(self) -> str:
        """One line: checkpoint, size, number format, device, way of decoding."""
        first = next(self.network.parameters())
        size = sum(parameter.numel() for parameter in self.network.parameters())
        precision = str(first.dtype).removeprefix("torch.")
        threads = f", {torch.get_num_threads()} threads" if first.device.type == "cpu" else ""
        where = f"{precision} on {first.device}{threads}"
        return f"{self.name}: {size / 1e6:.1f} M parameters, {where}, {self.sampler.sampler.description}"

    @property
    def fallbacks(self) -> list[str]:
        """One line for each time that the memory of the GPU ran out and another way was found."""
        return self.sampler.notes

    def warm_up(self) -> None:
        """Predict once in an empty map, so that the first real prediction is as fast as the next."""
        cells = np.full((200, 200), UNKNOWN, np.int8)
        cells[50:150, 50:150] = FREE
        cells[50, 50:150] = cells[149, 50:150] = OCCUPIED
        observation = self.predict(OccupancyMap(cells, 0.05), (5.0, 5.0)).observation
        # the few walls drawn there may shut no way: a box around the robot does, so that doors are compiled
        corners = np.array([[-2, -2], [12, -2], [12, 12], [-2, 12], [-2, -2]], np.float32)
        box = np.stack([corners[:-1], corners[1:]], axis=1)
        with_doors([box], observation, self.settings)

    def predict(
        self,
        grid: OccupancyMap,
        viewpoint: tuple[float, float],
        *,
        seed: int | None = None,
        completions: int | None = None,
    ) -> DistanceField:
        """Predict distances from viewpoint (x, y), map frame, m; the same seed gives the same result.

        A viewpoint in a blocked cell starts from the nearest open one within 1 m; one with no open cell near
        it gets +inf everywhere: `source_note` says so, as it does of a viewpoint outside the map or without a
        wall in sight.
        """
        settings = self.settings
        seed = settings.seed if seed is None else seed
        count = settings.completions if completions is None else completions
        if count < 1:
            raise ConfigError(f"completions = {count}: use at least 1")
        if seed < 0:
            raise ConfigError(f"seed = {seed}: use 0 or more")
        watch = Stopwatch()
        with watch("observe"):
            observation = observe(grid, viewpoint, self.observation)
        with watch("complete"):
            nucleus = Nucleus(settings.top_p, settings.temperature, settings.wall_log_odds)
            observed = observation if isinstance(self.network, SequenceNet) else observation.image
            drawn = self.sampler(observed, self._drawn(count), seed, nucleus)
        with watch("trim"):
            walls = with_doors([_unseen(levels, observation) for levels in drawn], observation, settings)
        ways = Searched.of(observation, walls, settings.inflation_radius_m, watch)
        if self._keep is not None and len(walls) > count:
            with watch("choose"):
                chosen = self._keep(observation, ways.fields, count)
                walls, ways = [walls[index] for index in chosen], ways.only(chosen)
        return _summarised(grid, observation, walls, ways, seed, self.horizon_m, watch)

    def _drawn(self, count: int) -> int:
        """How many completions are drawn so that so many can be kept."""
        return count if self.critic is None else max(count, self.settings.candidates)


def load_critic(path: str | Path | None = None) -> Critic:
    """The critic of a checkpoint, by default the shipped one; `CheckpointError` for another network."""
    path = path or shipped(CRITIC)
    critic, _ = load_checkpoint(path)
    if not isinstance(critic, Critic):
        raise CheckpointError(
            f"{path}: architecture {critic.config.architecture!r} is no critic; leave critic empty for the "
            "shipped one"
        )
    if critic.config.levels != WINDOW_CELLS:
        raise CheckpointError(
            f"{path}: a critic of {critic.config.levels} cells a side, the window has {WINDOW_CELLS}; leave "
            "critic empty for the shipped one"
        )
    return critic


def with_doors(
    completions: list[NDArray[np.float32]], observation: Observation, settings: PredictorSettings
) -> list[NDArray[np.float32]]:
    """Completions, N arrays (K, 2, 2), m, map frame, with doors opened as the settings say, in threads."""
    if settings.detour_m == 0:
        return completions
    ways = Ways.of(observation.states, settings.inflation_radius_m)

    def opened(walls: NDArray[np.float32]) -> NDArray[np.float32]:
        return open_doors(walls, ways, observation.window, settings.detour_m)

    return in_threads(opened, completions)


def distance_field_of(
    grid: OccupancyMap,
    observation: Observation,
    completions: list[NDArray[np.float32]],
    *,
    inflation_radius_m: float,
    seed: int,
    horizon_m: float,
    rasters: NDArray[np.bool_] | None = None,
    watch: Stopwatch | None = None,
) -> DistanceField:
    """From completions, N arrays (K, 2, 2) of walls in metres, map frame, to distances (section IV-E).

    rasters (N, 256, 256): completions that are drawn in the window already, whatever the walls say.
    """
    watch = watch or Stopwatch()
    ways = Searched.of(observation, completions, inflation_radius_m, watch, rasters)
    return _summarised(grid, observation, completions, ways, seed, horizon_m, watch)


def _summarised(
    grid: OccupancyMap,
    observation: Observation,
    completions: list[NDArray[np.float32]],
    ways: Searched,
    seed: int,
    horizon_m: float,
    watch: Stopwatch,
) -> DistanceField:
    with watch("summarise"):
        found = distances.summarise(ways.fields)
        return DistanceField(
            distance=_published(found.median, observation.states),
            spread=found.spread.astype(np.float32),
            reach_probability=found.reach.astype(np.float32),
            occupancy=_occupancy(ways.rasters, observation.states),
            completions=completions,
            observation=observation,
            origin=observation.window.origin,
            source=observation.window.viewpoint,
            seed=seed,
            horizon_m=horizon_m,
            blocked=ways.blocked,
            source_note=_note(grid, observation, ways.blocked),
            timings=watch.milliseconds,
        )


def _unseen(levels: NDArray[np.int64], observation: Observation) -> NDArray[np.float32]:
    """The parts of drawn walls (K, 4) that lie in the unseen, as in training, (M, 2, 2) metres."""
    unseen = unseen_walls(levels, observation.image)
    return to_metres(unseen, observation.frame).astype(np.float32)


def published_distance(fields: NDArray[np.float64], states: NDArray[np.int8]) -> NDArray[np.float32]:
    """Median of (N, 256, 256) distance fields; NaN where the states are observed occupied (decision 5)."""
    return _published(distances.median(fields), states)


def _published(median: NDArray[np.float64], states: NDArray[np.int8]) -> NDArray[np.float32]:
    distance = median.astype(np.float32)
    distance[states == OCCUPIED] = np.nan
    return distance


def _occupancy(rasters: NDArray[np.bool_], states: NDArray[np.int8]) -> NDArray[np.int8]:
    share = np.rint(100 * rasters.mean(0)).astype(np.int8)
    return np.where(states == UNKNOWN, share, states).astype(np.int8)


def _note(grid: OccupancyMap, observation: Observation, blocked: NDArray[np.bool_]) -> str:
    """One line on a viewpoint that is out of the ordinary, or ''."""
    viewpoint = observation.window.viewpoint
    column, row = grid.to_cell(viewpoint)
    height, width = grid.cells.shape
    where = f"viewpoint ({viewpoint[0]:.2f}, {viewpoint[1]:.2f})"
    notes = []
    if not (0 <= column < width and 0 <= row < height):
        notes.append(f"{where} is outside the map")
    if len(observation.walls) == 0:
        notes.append(f"no wall in sight of {where}")
    centre = WINDOW_CELLS // 2
    if blocked[:, centre, centre].any():
        moved = any(distances.start_cell(cells) is not None for cells in blocked)
        fate = "the search starts at the nearest open cell" if moved else "no open cell within 1 m of it"
        notes.append(f"{where} is within the inflation of a wall: {fate}")
    return "; ".join(notes)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"device = {name!r}: use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device = {name!r}: use auto, cpu, cuda or cuda:N")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # torch wraps indices of three digits, so the name is read here
    index = int(name.partition(":")[2] or 0) if device.type == "cuda" else 0
    if device.type == "cuda" and index >= found:
        raise ConfigError(f"device = {name!r}: torch sees no such GPU here; use auto or cpu")
    return device


def _precision(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.float16 if device.type == "cuda" else torch.float32
    if name not in PRECISIONS:
        raise ConfigError(f"precision = {name!r}: use auto, {', '.join(PRECISIONS)}")
    return PRECISIONS[name]
