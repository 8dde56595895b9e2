"""The page's server: static files, a WebSocket with the newest state, and a look-up of a point."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import WSMsgType, web
from aiohttp.typedefs import Middleware

from floorgent_ros.errors import FloorgentError
from floorgent_ros.view.state import State

PAGE = Path(__file__).parent / "page"
FILES = {"/": "index.html", "/view.css": "view.css", "/view.js": "view.js", "/drawing.js": "drawing.js"}
HEADERS = {
    # nothing from elsewhere, nowhere else to send to, and no frame of another page around it
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
MAX_CLIENTS = 32
HEARTBEAT_S = 20.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STATE = web.AppKey("state", State)
CLIENTS: web.AppKey[set[asyncio.Event]] = web.AppKey("clients", set)


def application(state: State, host: str) -> web.Application:
    """The pages and the WebSocket for what `state` holds; host: the address that is listened on."""
    app = web.Application(middlewares=[_guard(host)], client_max_size=4096)
    app[STATE], app[CLIENTS] = state, set()
    app.router.add_get("/live", _live)
    app.router.add_get("/at", _at)
    for path, name in FILES.items():
        app.router.add_get(path, _file(name))
    app.on_startup.append(_follow)
    return app


async def serve(state: State, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is told the address. `FloorgentError` if it is taken."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(application(state, host), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        name = f"[{host}]" if ":" in host else host
        ready(f"http://{name}:{runner.addresses[0][1]}/")
        await stop.wait()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FloorgentError(f"cannot listen on {host} port {port} ({reason}): give another --port") from None
    finally:
        await runner.cleanup()


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _guard(host: str) -> Middleware:
    """Refuse what another site's page in the same browser could ask for: other hosts' names and origins."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked = request.url.host or ""
        if is_loopback(host) and not is_loopback(asked):
            raise web.HTTPForbidden(text=f"this page is served for {host} only")
        origin = request.headers.get("Origin")
        if origin is not None and origin != str(request.url.origin()):
            raise web.HTTPForbidden(text="asked for by another page")
        try:
            response = await handler(request)
        except web.HTTPException as refusal:
            refusal.headers.update(HEADERS)
            raise
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return guard


def _file(name: str) -> Handler:
    async def send(_: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE / name)

    return send


async def _at(request: web.Request) -> web.StreamResponse:
    """GET /at?x=…&y=… (m): distance, spread and reach probability there."""
    try:
        x, y = float(request.query["x"]), float(request.query["y"])
    except (KeyError, ValueError):
        x = y = math.nan
    if not (math.isfinite(x) and math.isfinite(y)):
        raise web.HTTPBadRequest(text="give x and y in metres: /at?x=1.5&y=-2")
    return web.json_response(request.app[STATE].at(x, y))


async def _live(request: web.Request) -> web.StreamResponse:
    """Send what is newer than what was sent: a slow client misses frames, and never falls behind."""
    state, clients = request.app[STATE], request.app[CLIENTS]
    if len(clients) >= MAX_CLIENTS:
        raise web.HTTPServiceUnavailable(text=f"{MAX_CLIENTS} pages are open already")
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=1024)
    await socket.prepare(request)
    changed = asyncio.Event()
    changed.set()
    clients.add(changed)
    sender = asyncio.create_task(_send(socket, state, changed))
    try:
        async for message in socket:
            if message.type == WSMsgType.ERROR:
                break
    finally:
        clients.discard(changed)
        sender.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await sender
    return socket


async def _send(socket: web.WebSocketResponse, state: State, changed: asyncio.Event) -> None:
    sent: dict[str, int] = {}
    while True:
        await changed.wait()
        changed.clear()
        for kind, (version, frame) in state.newer(sent).items():
            sent[kind] = version
            await socket.send_bytes(frame)


async def _follow(app: web.Application) -> None:
    """Wake every client's sender when the state changes in another thread."""
    loop = asyncio.get_running_loop()

    def wake_all() -> None:
        for changed in app[CLIENTS]:
            changed.set()

    def wake() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(wake_all)

    app[STATE].notify(wake)
