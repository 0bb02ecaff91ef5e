"""Static files and response headers.

The files that a browser may have, by name: no folder is served.

What every answer says to the browser, errors too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.clients.errors import Missing

HERE = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PLOTLY = "plotly.min.js"


@cache
def files() -> dict[str, Path]:
    """Name -> file: the page's own, and Plotly's JavaScript out of its Python package."""
    own = {path.name: path for path in HERE.iterdir() if path.suffix in TYPES}
    # Found, not imported: importing Plotly takes a while, and only its file is wanted.
    package = find_spec("plotly")
    if package is None or package.origin is None:
        return own
    return own | {PLOTLY: Path(package.origin).parent / "package_data" / PLOTLY}


def find(name: str, known: Mapping[str, Path] | None = None) -> tuple[Path, str]:
    """The file, of those of ``known`` (None: all), and its media type. Raises Missing for a name that is not
    to be had."""
    path = (files() if known is None else known).get(name)
    if path is None or not path.is_file():
        raise Missing(f"there is no static file {name!r}")
    return path, TYPES[path.suffix]


@cache
def plotly_version() -> str:
    """In the file's address, so that a browser may keep it for good."""
    return version("plotly")


# Scripts, styles, pictures and data from this server only, nothing inline, and shown in Airflow's frame only.
# The hash is that of an empty style element: Plotly makes one and fills it by CSSOM, which no policy forbids.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)


class Headers:
    """ASGI middleware: the policy, no guessing of types, and how long the answer took (``Server-Timing``)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
                headers.setdefault("Cache-Control", "no-store")
                headers["Server-Timing"] = f"app;dur={(time.perf_counter() - began) * 1000:.1f}"
            await send(message)

        await self.app(scope, receive, dressed)
