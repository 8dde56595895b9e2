"""map_server's files (YAML and image) ↔ `OccupancyMap`, by the rules of nav2_map_server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml
from numpy.typing import NDArray

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap

MODES = ("trinary", "scale", "raw")
OCCUPIED_THRESHOLD, FREE_THRESHOLD = 0.65, 0.196  # map_server's, for files that do not name them
# What map_saver writes: grey values that the two thresholds read back as they were.
GREY_OCCUPIED, GREY_FREE, GREY_UNKNOWN = 0, 254, 205


@dataclass(frozen=True)
class MapHeader:
    """The keys of a map's YAML file; thresholds are shares of darkness from 0 to 1."""

    image: Path
    resolution: float
    origin: tuple[float, float, float]
    mode: str
    negate: bool
    occupied_threshold: float
    free_threshold: float


def read_map(path: str | Path) -> OccupancyMap:
    """Read a map's YAML file and the image that it names; `MapError` in one line when that fails."""
    path = Path(path)
    header = _read_header(path)
    shade, opaque = _read_image(header.image, path, averages_alpha=header.mode == "trinary")
    x, y, yaw = header.origin
    try:
        # The image's first row is the highest y, the map's first row the lowest.
        cells = np.ascontiguousarray(_to_cells(shade, opaque, header)[::-1])
        return OccupancyMap(cells, header.resolution, (x, y), yaw)
    except MapError as error:
        raise MapError(f"{path}: {error}") from None


def write_map(grid: OccupancyMap, path: str | Path) -> None:
    """Write `path` (YAML) and a PNG of the same stem; `MapError` when they cannot be written.

    A map of −1, 0 and 100 alone is written in mode trinary, which every tool reads; any other in mode raw.
    Reading gives the same map again (values above 100 come back as 100, below −1 as −1).
    """
    path = Path(path)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise MapError(f"{path}: a map is saved under a name that ends in .yaml; its image gets .png")
    image = path.with_suffix(".png")
    cells = np.clip(grid.cells, UNKNOWN, OCCUPIED)
    if np.isin(cells, (UNKNOWN, FREE, OCCUPIED)).all():
        mode = "trinary"
        pixels = np.full(cells.shape, GREY_UNKNOWN, np.uint8)
        pixels[cells == FREE] = GREY_FREE
        pixels[cells == OCCUPIED] = GREY_OCCUPIED
    else:
        mode = "raw"
        pixels = cells.astype(np.uint8)  # unknown becomes 255
    header = {
        "image": image.name,
        "mode": mode,
        "resolution": float(grid.resolution),
        "origin": [float(grid.origin[0]), float(grid.origin[1]), float(grid.yaw)],
        "negate": 0,
        "occupied_thresh": OCCUPIED_THRESHOLD,
        "free_thresh": FREE_THRESHOLD,
    }
    try:
        coded = cv2.imencode(".png", np.ascontiguousarray(pixels[::-1]))[1]
        image.write_bytes(coded.tobytes())
        path.write_text(yaml.safe_dump(header, sort_keys=False), encoding="utf-8")
    except (OSError, cv2.error) as error:
        raise MapError(f"{path}: cannot write the map: {_one_line(error)}") from None


def _read_header(path: Path) -> MapHeader:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MapError(
            f"{path}: cannot read the map: {_one_line(error)}; give map_server's YAML file"
        ) from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise MapError(f"{path}: not YAML: {_one_line(error)}; give map_server's YAML file") from None
    if not isinstance(content, dict):
        raise MapError(f"{path}: not a map's YAML file; it needs image, resolution and origin")
    for key in ("image", "resolution", "origin"):
        if key not in content:
            raise MapError(f"{path}: {key} is missing; a map's YAML file needs image, resolution and origin")
    return MapHeader(
        image=path.parent / str(content["image"]),
        resolution=_number(path, "resolution", content["resolution"]),
        origin=_origin(path, content["origin"]),
        mode=_mode(path, content.get("mode", "trinary")),
        negate=_number(path, "negate", content.get("negate", 0)) != 0,
        occupied_threshold=_number(
            path, "occupied_thresh", content.get("occupied_thresh", OCCUPIED_THRESHOLD)
        ),
        free_threshold=_number(path, "free_thresh", content.get("free_thresh", FREE_THRESHOLD)),
    )


def _number(path: Path, key: str, value: Any) -> float:
    try:
        return float(value)  # also text: YAML 1.1 reads 5e-2 as a string
    except (TypeError, ValueError):
        raise MapError(f"{path}: {key} is {value!r}: give a number") from None


def _origin(path: Path, value: Any) -> tuple[float, float, float]:
    if not isinstance(value, list) or len(value) != 3:
        raise MapError(f"{path}: origin is {value!r}: give [x, y, yaw] in m and rad")
    x, y, yaw = (_number(path, "origin", number) for number in value)
    return x, y, yaw


def _mode(path: Path, value: Any) -> str:
    mode = str(value).lower()
    if mode not in MODES:
        raise MapError(f"{path}: mode is {value!r}: use one of {', '.join(MODES)}")
    return mode


def _read_image(
    image: Path, path: Path, *, averages_alpha: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Brightness 0…1 and "fully opaque" of every pixel, (H, W), first row on top."""
    try:
        data = np.frombuffer(image.read_bytes(), np.uint8)
        pixels = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data.size else None
    except (OSError, cv2.error) as error:
        raise MapError(f"{path}: cannot read its image {image}: {_one_line(error)}") from None
    if pixels is None or pixels.dtype not in (np.uint8, np.uint16):
        raise MapError(
            f"{path}: its image {image} is not one of 8 or 16 bits that OpenCV reads; use PNG or PGM"
        )
    levels = pixels.reshape(*pixels.shape[:2], -1)
    top = 255.0 if pixels.dtype == np.uint8 else 65535.0
    has_alpha = levels.shape[2] in (2, 4)
    opaque = levels[..., -1] == top if has_alpha else np.ones(levels.shape[:2], np.bool_)
    # nav2 averages the alpha channel with the colours in mode trinary, and only there.
    channels = levels if averages_alpha or not has_alpha else levels[..., :-1]
    return channels.mean(axis=2) / top, opaque


def _to_cells(shade: NDArray[np.float64], opaque: NDArray[np.bool_], header: MapHeader) -> NDArray[np.int8]:
    """Brightness 0…1 → −1, 0…100; mode raw knows no `negate`, as in nav2."""
    if header.mode == "raw":
        value = np.round(shade * 255)
        return np.where(value <= OCCUPIED, value, UNKNOWN).astype(np.int8)
    darkness = shade if header.negate else 1.0 - shade
    occupied, free = darkness > header.occupied_threshold, darkness < header.free_threshold
    if header.mode == "trinary":
        return np.select([occupied, free], [OCCUPIED, FREE], UNKNOWN).astype(np.int8)
    # Scale: linear between the thresholds; a translucent pixel is unknown.
    span = header.occupied_threshold - header.free_threshold
    between = np.rint((darkness - header.free_threshold) / (span if span > 0 else 1.0) * OCCUPIED)
    return np.select([~opaque, occupied, free], [UNKNOWN, OCCUPIED, FREE], between).astype(np.int8)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
