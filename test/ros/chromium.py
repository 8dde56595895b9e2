"""Headless Chromium over its DevTools protocol, for tests of the live page."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)
START_S = 120.0


def executable() -> str | None:
    """The browser's path, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page, as an asynchronous context."""

    def __init__(self, width: int = 1200, height: int = 800) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium_", ignore_cleanup_errors=True)
        self._size = f"--window-size={width},{height}"
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        command = [str(executable()), *FLAGS, self._size, f"--user-data-dir={self._folder.name}"]
        self._child = subprocess.Popen(
            [*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    async def __aenter__(self) -> Self:
        port = (await self._told()).split()[0]
        self._session = aiohttp.ClientSession()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = [page for page in await answer.json() if page["type"] == "page"]
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        self._child.terminate()
        self._child.wait(30)
        self._folder.cleanup()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One DevTools command and its result; what the page complains of meanwhile is kept."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            told = await self._socket.receive_json(timeout=START_S)
            if told.get("method") in {"Runtime.exceptionThrown", "Log.entryAdded"}:
                self.complaints.append(str(told["params"]))
            if told.get("id") == number:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        result = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, expression: str, limit_s: float = START_S) -> Any:
        """Wait for an expression to be true; its value."""
        end = time.monotonic() + limit_s
        while not (value := await self.evaluate(expression)):
            assert time.monotonic() < end, (expression, self.complaints)
            await asyncio.sleep(0.1)
        return value

    async def click(self, x: float, y: float) -> None:
        """Press and release the left button at a point of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def screenshot(self, path: Path) -> None:
        """Write a PNG of the page."""
        picture = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(picture["data"]))  # noqa: ASYNC240

    async def _told(self) -> str:
        """What the browser writes when it listens."""
        end = time.monotonic() + START_S
        while not (told := self._written()):
            assert time.monotonic() < end, "Chromium did not start"
            assert self._child.poll() is None, "Chromium ended"
            await asyncio.sleep(0.1)
        return told

    def _written(self) -> str:
        path = Path(self._folder.name) / "DevToolsActivePort"
        return path.read_text() if path.is_file() else ""
