"""`floorgent view`: a live page of what the node publishes."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util

from floorgent_ros.errors import FloorgentError


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C or SIGTERM; raises `FloorgentError`."""
    for library, cure in (("aiohttp", "pip install aiohttp"), ("rclpy", "source a ROS 2 installation")):
        if importlib.util.find_spec(library) is None:
            raise FloorgentError(f"{library} is not installed: {cure}")

    from floorgent_ros.ros.viewer import Ears
    from floorgent_ros.view.server import is_loopback, serve
    from floorgent_ros.view.state import State

    state = State()
    ears = Ears(state, options.namespace, options.map_topic, options.pose_topic)

    def ready(address: str) -> None:
        print(f"listening to {', '.join(ears.topics)}")
        if not is_loopback(options.host):
            print(f"--host {options.host}: everybody who reaches this machine can see the page")
        print(f"open {address}  (Ctrl-C ends it)", flush=True)

    try:
        asyncio.run(serve(state, options.host, options.port, ready))
    finally:
        ears.close()
    return 0
