"""One training sample: a simulated observation, the walls that it does not show, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.assumptions import saturated, unknown_costs, unknown_is_free
from floorgent_ros.geometry.lattice import OUTSIDE, POINTS, lattice
from floorgent_ros.geometry.observation import Observation, observe
from floorgent_ros.geometry.segments import target_walls
from floorgent_ros.geometry.symmetry import turn_image, turn_levels
from floorgent_ros.simulation.lidar import LidarSettings, Scene
from floorgent_ros.simulation.site import Site, WalkSettings, walk, with_clutter
from floorgent_ros.simulation.truth import Truth

NOWHERE = 65535  # in `Sample.ways`


@dataclass(frozen=True)
class Sample:
    """image: (L, L) int8 of −1/0/100, the network's input. walls: (N, 4) int64 unseen walls, levels.

    ways: (3, P, P) uint16, cm, at the points of the image's `lattice`: the distance if the unseen is free, if
    it costs a surcharge, and in truth; saturated. Where the truth does not count
    (protocol E4) it is `NOWHERE`, and all three are where the window holds no such point.
    """

    image: NDArray[np.int8]
    walls: NDArray[np.int64]
    ways: NDArray[np.uint16] = field(default_factory=lambda: np.full((3, POINTS, POINTS), NOWHERE, np.uint16))

    def turned(self, symmetry: int) -> Sample:
        """Apply one of the eight signed permutations (section IV-A1), 0 ≤ symmetry < 8; 0 is the identity."""
        walls = turn_levels(self.walls, symmetry, self.image.shape[0] - 1)
        return Sample(turn_image(self.image, symmetry), walls, turn_image(self.ways, symmetry))


def draw_settings(rng: np.random.Generator) -> WalkSettings:
    """Draw how the robot observes: half single scans, half walks; sensors and maps as they are in use.

    Half of the sensors are the evaluation's (10 m, 1440 rays, exact), so that neither is out of
    distribution.
    """
    walks = rng.random() < 0.5
    clean = rng.random() < 0.5
    lidar = LidarSettings()
    if not clean:
        lidar = LidarSettings(
            rays=int(rng.choice([360, 720, 1440])),
            range_m=float(rng.uniform(5.0, 15.0)),
            noise_m=float(rng.uniform(0.0, 0.03)),
            dropout=float(rng.choice([0.0, rng.uniform(0.0, 0.2)])),
        )
    settings = WalkSettings(scans=int(rng.integers(2, 13)) if walks else 1, lidar=lidar)
    if clean:
        return settings
    return replace(
        settings,
        resolution=float(rng.choice([0.025, 0.05, 0.05, 0.10])),
        map_yaw=float(rng.choice([0.0, rng.uniform(-np.pi, np.pi)])),
        jitter_m=float(rng.uniform(0.0, 0.03)),
        jitter_rad=float(rng.uniform(0.0, 0.006)),
    )


def draw_sample(site: Site, horizon_m: float, rng: np.random.Generator) -> Sample:
    """Walk through the site, observe, and keep the walls within the horizon that are not seen."""
    settings = draw_settings(rng)
    start, scene = site.draw_viewpoint(rng), site.scene
    if settings != WalkSettings(scans=settings.scans):
        scene = _disturbed(site, start, rng)
    grid, places = walk(site, start, settings, rng, scene)
    observation = observe(grid, places[-1])
    walls = target_walls(site.plan.segments, observation.frame, observation.image, horizon_m)
    return Sample(observation.image, walls, _ways(observation, Truth.of(site.plan, places[-1])))


def _ways(observation: Observation, truth: Truth) -> NDArray[np.uint16]:
    """Assumed and true distances (3, P, P) at the lattice's points."""
    states = observation.states
    fields = saturated(np.stack([unknown_is_free(states), unknown_costs(states), truth.distance]))
    encoded = np.rint(100 * fields).astype(np.uint16)
    encoded[2, ~truth.counted] = NOWHERE
    cells = lattice(observation.frame, observation.window)
    return np.where(cells == OUTSIDE, np.uint16(NOWHERE), encoded.reshape(3, -1)[:, cells])


def _disturbed(site: Site, viewpoint: tuple[float, float], rng: np.random.Generator) -> Scene:
    """Draw a scene with thick walls, glass that the LIDAR misses, or furniture."""
    scene, segments, windows = site.scene, site.plan.segments, site.plan.windows
    if len(windows) and rng.random() < 0.3:
        seen = windows[rng.random(len(windows)) > rng.uniform(0.0, 0.6)]
        segments = np.concatenate([site.plan.walls, seen])
        scene = scene.with_segments(segments)
    if rng.random() < 0.3:
        scene = scene.with_segments(segments, thickness_m=float(rng.choice([0.10, 0.15])))
    if rng.random() < 0.4:
        area = float(site.indoor.sum()) * scene.resolution**2
        pieces = int(area * rng.uniform(0.01, 0.12))
        scene = with_clutter(scene, site.indoor, pieces, rng, keep_free=viewpoint)
    return scene
