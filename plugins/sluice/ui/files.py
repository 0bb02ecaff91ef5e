"""The files that a browser may have, by name: no folder is served."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

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
