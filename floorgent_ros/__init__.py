"""FloorGenT for robots: predicts the unseen walls around a robot and the distances through them.

Importing this package loads neither torch nor rclpy; the public names load what they need on first use.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from floorgent_ros.distance_lookup import distance_at
    from floorgent_ros.geometry.grid import OccupancyMap
    from floorgent_ros.predictor import DistanceField, DistancePredictor

__version__ = "0.1.0"
__all__ = ["DistanceField", "DistancePredictor", "OccupancyMap", "__version__", "distance_at"]

# The compiled message lives in the install prefix, these sources perhaps in a working tree: join the two.
__path__ = extend_path(__path__, __name__)

_HOMES = {
    "DistanceField": "floorgent_ros.predictor",
    "DistancePredictor": "floorgent_ros.predictor",
    "OccupancyMap": "floorgent_ros.geometry.grid",
    "distance_at": "floorgent_ros.distance_lookup",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
