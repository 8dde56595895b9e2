"""Walls as RViz markers: what is observed and what each completion adds."""

from __future__ import annotations

import colorsys
from typing import TYPE_CHECKING, Any

import numpy as np
from geometry_msgs.msg import Point
from numpy.typing import NDArray
from std_msgs.msg import ColorRGBA, Header
from visualization_msgs.msg import Marker, MarkerArray

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField

WALLS_TOPIC = "floorgent/walls"
OBSERVED_COLOUR = (0.85, 0.10, 0.10, 1.0)
OBSERVED_WIDTH_M, COMPLETION_WIDTH_M = 0.12, 0.06


def wall_markers(field: DistanceField, header: Header) -> MarkerArray:
    """DELETEALL, then one line list for the observed walls and one for each completion's.

    The first marker clears what an earlier prediction with more completions left, in the same array, so
    that nothing flickers. Line lists without lines are left out: RViz complains about them.
    """
    markers = [Marker(header=header, action=Marker.DELETEALL)]
    layers: list[tuple[str, NDArray[Any], tuple[float, ...], float]] = [
        ("observed", field.observation.walls, OBSERVED_COLOUR, OBSERVED_WIDTH_M)
    ]
    for index, walls in enumerate(field.completions):
        colour = completion_colour(index, len(field.completions))
        layers.append((f"completion_{index + 1}", walls, colour, COMPLETION_WIDTH_M))
    markers += [_line_list(header, *layer) for layer in layers if len(layer[1])]
    return MarkerArray(markers=markers)


def walls_of(message: MarkerArray, count: int) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
    """The other way: observed walls and those of `count` completions, each (K, 2, 2), m."""
    lines = {marker.ns: _segments(marker) for marker in message.markers if marker.action == Marker.ADD}
    nothing = np.zeros((0, 2, 2), np.float32)  # what has no walls has no marker
    completions = [lines.get(f"completion_{index + 1}", nothing) for index in range(count)]
    return lines.get("observed", nothing), completions


def _segments(marker: Marker) -> NDArray[np.float32]:
    return np.array([(point.x, point.y) for point in marker.points], np.float32).reshape(-1, 2, 2)


def completion_colour(index: int, count: int) -> tuple[float, float, float, float]:
    """Red, green, blue, alpha: evenly spaced hues from yellow to magenta, clear of the observed red."""
    hue = 0.12 + 0.75 * index / max(count, 1)
    return (*colorsys.hsv_to_rgb(hue, 0.9, 0.95), 0.7)


def _line_list(
    header: Header, namespace: str, walls: NDArray[Any], colour: tuple[float, ...], width_m: float
) -> Marker:
    """Walls (N, 2, 2), metres in the header's frame, as one LINE_LIST marker."""
    red, green, blue, alpha = colour
    marker = Marker(header=header, ns=namespace, id=0, type=Marker.LINE_LIST, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.scale.x = width_m
    marker.color = ColorRGBA(r=red, g=green, b=blue, a=alpha)
    marker.points = [Point(x=x, y=y, z=0.0) for x, y in walls.reshape(-1, 2).astype(float).tolist()]
    return marker
