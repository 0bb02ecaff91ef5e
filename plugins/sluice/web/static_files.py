"""Static files by name (no folder is served), and the headers of every response."""

from __future__ import annotations

import time
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sluice.core.errors import Missing

HERE = Path(__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PLOTLY = "plotly.min.js"


@cache
def files() -> dict[str, Path]:
    """Name -> file: the pages' own, and Plotly's from its Python package."""
    own = {path.name: path for path in HERE.iterdir() if path.suffix in TYPES}
    # Not imported: that takes long, and only the file is needed.
    package = find_spec("plotly")
    if package is None or package.origin is None:
        return own
    return own | {PLOTLY: Path(package.origin).parent / "package_data" / PLOTLY}


def find(name: str) -> tuple[Path, str]:
    """The file and its media type. Raises Missing."""
    path = files().get(name)
    if path is None or not path.is_file():
        raise Missing(f"static file {name!r} not found")
    return path, TYPES[path.suffix]


@cache
def plotly_version() -> str:
    """Part of the file's address, so that a browser may cache it forever."""
    return version("plotly")


# All content from this server, nothing inline, only in Airflow's frame. The hash is of an empty style
# element: Plotly creates one and fills it by CSSOM, which no policy forbids.
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
    """ASGI middleware: security headers, and the response time (``Server-Timing``)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = POLICY
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "same-origin"
                headers.setdefault("Cache-Control", "no-store")
                headers["Server-Timing"] = f"app;dur={(time.perf_counter() - began) * 1000:.1f}"
            await send(message)

        await self.app(scope, receive, send_with_headers)
