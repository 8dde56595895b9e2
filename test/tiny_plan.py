"""A floor plan in the KTH format, written by the tests."""

from __future__ import annotations

from pathlib import Path

PIXELS_PER_M = 100


def write_plan(
    path: Path, rooms: int = 3, width_m: float = 5.0, depth_m: float = 6.0, door_m: float = 1.0
) -> Path:
    """Rooms in a row, doors in the middle of the walls between them, a window in each; y grows downwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spaces = "".join(_room(index, rooms, width_m, depth_m, door_m) for index in range(rooms))
    path.write_text(
        f'<floor BuildingName="{path.parent.name}" FloorName="{path.stem}">'
        f'<Scale PixelDistance="{PIXELS_PER_M}" RealDistance="1"/>{spaces}</floor>',
        encoding="utf-8",
    )
    return path


def _room(index: int, rooms: int, width: float, depth: float, door: float) -> str:
    left, right, low, high = index * width, (index + 1) * width, -depth / 2, depth / 2
    lines = [("Window", left, low, right, low)]
    lines += _side(right, low, high, door, last=index == rooms - 1)
    lines += [("Wall", right, high, left, high)]
    lines += [
        (kind, x1, y1, x0, y0) for kind, x0, y0, x1, y1 in reversed(_side(left, low, high, door, index == 0))
    ]
    segments = "".join(
        f'<linesegment x1="{x0 * PIXELS_PER_M}" y1="{-y0 * PIXELS_PER_M}"'
        f' x2="{x1 * PIXELS_PER_M}" y2="{-y1 * PIXELS_PER_M}" type="{kind}"/>'
        for kind, x0, y0, x1, y1 in lines
    )
    return f'<space name="{index}"><contour>{segments}</contour></space>'


def _side(
    x: float, low: float, high: float, door: float, last: bool
) -> list[tuple[str, float, float, float, float]]:
    """A wall from low to high, with a door unless it is the outer one."""
    if last:
        return [("Wall", x, low, x, high)]
    return [
        ("Wall", x, low, x, -door / 2),
        ("Portal", x, -door / 2, x, door / 2),
        ("Wall", x, door / 2, x, high),
    ]
