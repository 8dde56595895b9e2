"""A node that does nothing but wait for the latched map: what the middleware alone takes (`soak.py`)."""

from __future__ import annotations

import time

import rclpy
from nav_msgs.msg import OccupancyGrid

from floorgent_ros.ros.listener import LATCHED

LISTENING, HEARD = "listening", "heard"


def main() -> None:
    """Print a line when the node is there and one when the map is; then wait to be killed."""
    rclpy.init()
    node = rclpy.create_node("bare_listener")
    heard: list[OccupancyGrid] = []
    node.create_subscription(OccupancyGrid, "map", heard.append, LATCHED)
    print(LISTENING, flush=True)
    while not heard:
        rclpy.spin_once(node)
    print(HEARD, flush=True)
    time.sleep(3600.0)


if __name__ == "__main__":
    main()
