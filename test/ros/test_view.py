"""The live page: a real process, fed with real messages, asked over HTTP and WebSocket and in a browser."""

from __future__ import annotations

import asyncio
import json
import math
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import chromium
import numpy as np
import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from ros_harness import LIMIT_S, Bench, fake_field, map_message, pose_message
from ros_process import NodeProcess
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.conversions import distance_grid, window_info
from floorgent_ros.ros.listener import LATCHED, VOLATILE
from floorgent_ros.ros.markers import wall_markers

VIEW = [sys.executable, "-m", "floorgent_ros.cli", "view", "--port", "0"]
START_S = 120.0
SOURCE = (1.5, -2.25)


class Stage:
    """Publishes what robot and node would, in the robot's namespace, and knows the page's address."""

    def __init__(self, bench: Bench, process: NodeProcess, namespace: str = "") -> None:
        self.bench, self.process = bench, process
        node = bench.node("stage", namespace=namespace)
        self.maps = node.create_publisher(OccupancyGrid, "map", VOLATILE)  # as slam tools do
        self.poses = node.create_publisher(PoseStamped, "pose", VOLATILE)
        self.distances = node.create_publisher(DistanceGrid, "floorgent/distance", LATCHED)
        self.walls = node.create_publisher(MarkerArray, "floorgent/walls", LATCHED)
        publishers = (self.maps, self.poses, self.distances, self.walls)
        bench.until(
            lambda: all(publisher.get_subscription_count() for publisher in publishers),
            process.said(),
            START_S,
        )
        process.until_said("open http")
        found = re.search(r"open (http://\S+)", process.said())
        assert found
        self.address = found.group(1)

    def publish(self, seed: int = 3) -> Any:
        """A map, a pose, and a prediction of three completions; the prediction."""
        field = fake_field(SOURCE, completions=3, seed=seed)
        field.distance[:] = np.hypot(*(np.indices((256, 256)) - 128)).astype(np.float32) * 0.15625
        field.distance[10, 20], field.distance[11, 20] = math.nan, math.inf
        header = Header(stamp=Time(sec=1), frame_id="map")
        message = distance_grid(field, header, window_info(field, Time()), Time(sec=1))
        message.latency_s = 0.25
        self.maps.publish(map_message(yaw=0.5, origin=(-0.3, 0.2)))
        self.poses.publish(pose_message(2.0, 1.0))
        self.distances.publish(message)
        self.walls.publish(wall_markers(field, header))
        return field

    def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run asynchronous work while ROS spins."""

        async def both() -> None:
            task = asyncio.ensure_future(work())
            while not task.done():
                self.bench.executor.spin_once(timeout_sec=0)
                await asyncio.sleep(0.02)
            await task

        asyncio.run(both())


async def frames(socket: Any, kinds: set[str]) -> dict[str, tuple[dict[str, Any], bytes]]:
    """The newest frame (header, values) of each kind, once all have come."""
    found: dict[str, tuple[dict[str, Any], bytes]] = {}
    while not kinds <= set(found):
        data = await socket.receive_bytes(timeout=START_S)
        length = int.from_bytes(data[:4], "little")
        header = json.loads(data[4 : 4 + length])
        found[header["kind"]] = header, data[4 + length :]
    return found


def test_the_page_shows_what_is_published(bench: Bench, start: Callable[..., NodeProcess]) -> None:
    process = start(VIEW, "--namespace", "robot1")
    stage = Stage(bench, process, "robot1")
    assert stage.address.startswith("http://127.0.0.1:")
    assert "/robot1/floorgent/distance" in process.said()

    async def ask() -> None:
        async with aiohttp.ClientSession(stage.address) as session:
            async with session.get("/at?x=1&y=2") as answer:
                assert (await answer.json())["state"] == "none"
            async with session.ws_connect("/live") as socket:
                field = stage.publish()
                found = await frames(socket, {"map", "prediction", "walls", "robot"})
                check(found, field)
                # the next one is told without being asked for
                stage.publish(seed=2**63 - 1)
                header, _ = (await frames(socket, {"prediction"}))["prediction"]
                while header["seed"] == "3":
                    header, _ = (await frames(socket, {"prediction"}))["prediction"]
                assert header["seed"] == str(2**63 - 1)
            async with session.ws_connect("/live") as late:  # a page that is opened later has it all at once
                assert set(await frames(late, {"map", "prediction", "walls", "robot"}))
            await check_points(session, field)
            for path in ("/", "/view.js", "/drawing.js", "/view.css"):
                async with session.get(path) as answer:
                    assert answer.status == 200
                    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
            async with session.get("/../server.py") as answer:
                assert answer.status == 404

    def check(found: dict[str, tuple[dict[str, Any], bytes]], field: Any) -> None:
        header, cells = found["map"]
        expected = map_message(yaw=0.5, origin=(-0.3, 0.2))
        assert (header["width"], header["height"], header["frame"]) == (80, 60, "map")
        assert (header["origin"], header["resolution"]) == ([-0.3, 0.2], 0.05)
        assert header["yaw"] == pytest.approx(0.5)
        assert cells == expected.data.tobytes()
        header, distance = found["prediction"]
        assert np.array_equal(
            np.frombuffer(distance, np.float32).reshape(256, 256), field.distance, equal_nan=True
        )
        assert (header["source"], header["latency_s"], header["completions"]) == (list(SOURCE), 0.25, 3)
        header, walls = found["walls"]
        layers = [field.observation.walls, *field.completions]
        assert header["counts"] == [len(layer) for layer in layers]
        assert np.allclose(np.frombuffer(walls, np.float32), np.concatenate(layers).ravel())
        header, _ = found["robot"]
        assert (header["x"], header["y"]) == (2.0, 1.0)

    async def check_points(session: aiohttp.ClientSession, field: Any) -> None:
        corner = (SOURCE[0] - 20, SOURCE[1] - 20)
        for row, column, state in [
            (128, 148, "reached"),
            (10, 20, "occupied"),
            (11, 20, "unreachable"),
            (-1, 0, "outside"),
        ]:
            x, y = (corner[0] + (column + 0.5) * 0.15625, corner[1] + (row + 0.5) * 0.15625)
            async with session.get("/at", params={"x": x, "y": y}) as answer:
                told = await answer.json()
            assert told["state"] == state
            if state == "reached":
                assert told["distance"] == pytest.approx(float(field.distance[row, column]))
                assert told["spread"] == pytest.approx(float(field.spread[row, column]))
                assert told["reach_probability"] == pytest.approx(float(field.reach_probability[row, column]))
            else:
                assert told["distance"] is None
        for query in ("", "?x=1", "?x=1&y=north", "?x=nan&y=0"):
            async with session.get(f"/at{query}") as answer:
                assert answer.status == 400

    stage.run(ask)
    assert process.stop(signal.SIGTERM, LIMIT_S) == 0


def test_other_sites_pages_get_nothing(bench: Bench, start: Callable[..., NodeProcess]) -> None:
    process = start(VIEW)
    process.until_said("open http")
    address = re.search(r"open (http://\S+)", process.said()).group(1)  # type: ignore[union-attr]
    port = int(address.rstrip("/").rpartition(":")[2])
    taken = start([*VIEW[:-1], str(port)])

    async def ask() -> None:
        async with aiohttp.ClientSession(address) as session:
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                async with session.get("/at?x=1&y=2", headers=headers) as answer:
                    assert answer.status == 403
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect("/live", origin="http://evil.example")
            async with session.get("/", headers={"Host": f"localhost:{port}"}) as answer:
                assert answer.status == 200
            async with session.post("/at") as answer:
                assert answer.status == 405

    asyncio.run(ask())
    assert taken.exit_code(START_S) == 2
    lines = taken.said().strip().splitlines()
    assert len(lines) == 1
    assert f"port {port}" in lines[0]
    assert process.stop(signal.SIGINT, LIMIT_S) == 0


def test_a_namespace_that_is_none_is_refused_in_one_line(start: Callable[..., NodeProcess]) -> None:
    process = start(VIEW, "--namespace", "no good")
    assert process.exit_code(START_S) == 2
    assert len(process.said().strip().splitlines()) == 1


@pytest.mark.skipif(chromium.executable() is None, reason="no Chromium here (Debian: apt install chromium)")
def test_the_page_in_a_browser_draws_it_and_a_click_asks(
    bench: Bench, start: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    stage = Stage(bench, start(VIEW))
    field = stage.publish()

    async def look() -> None:
        async with chromium.Browser() as browser:
            await browser.call("Page.navigate", url=stage.address)
            kinds = "['map', 'prediction', 'walls', 'robot']"
            await browser.until(f"window.floorgentView && {kinds}.every((kind) => floorgentView.state[kind])")
            assert await browser.until("document.getElementById('latency').textContent") == "0.25 s"
            assert "seed 3" in await browser.evaluate("document.getElementById('completions').textContent")
            x, y = SOURCE[0] + 3.1, SOURCE[1] + 4.0
            await browser.until(
                "Math.abs(floorgentView.floor.centre[0] - 2) < 1e-6 && floorgentView.floor.canvas.width > 300"
            )
            place = await browser.evaluate(f"floorgentView.floor.toClient({x}, {y})")
            await browser.click(*place)
            told = await browser.until("document.getElementById('distance').textContent")
            shown = float(told.removesuffix(" m"))
            found = await browser.evaluate(
                "fetch('at?x=' + document.getElementById('place').textContent.split(', ')[0]"
                " + '&y=' + document.getElementById('place').textContent.split(', ')[1])"
                ".then((answer) => answer.json())"
            )
            assert (found["x"], found["y"]) == (pytest.approx(x, abs=0.05), pytest.approx(y, abs=0.05))
            assert shown == pytest.approx(found["distance"], abs=0.2)
            assert shown == pytest.approx(math.hypot(3.1, 4.0), abs=0.4)
            colours = await browser.evaluate(
                "(() => { const c = floorgentView.floor.canvas; const d = c.getContext('2d')"
                ".getImageData(0, 0, c.width, c.height).data; const s = new Set();"
                "for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);"
                "return s.size; })()"
            )
            assert colours > 100  # the scale, the map, the walls: not an empty canvas
            # without its layers the picture is another
            before = await browser.evaluate("floorgentView.floor.canvas.toDataURL()")
            await browser.evaluate("document.getElementById('show-distance').click()")
            await browser.until(
                f"floorgentView.floor.canvas.toDataURL() !== {json.dumps(before)}", limit_s=30.0
            )
            await browser.screenshot(tmp_path / "page.png")
            assert browser.complaints == []

    stage.run(look)
    assert (tmp_path / "page.png").stat().st_size > 10_000
    assert len(field.completions) == 3
