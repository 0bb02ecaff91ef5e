"""What commands print on: a terminal, or a file that a program reads."""

from __future__ import annotations

import json
from base64 import b64encode
from math import isfinite
from typing import Any

from rich.console import Console

from sluice.cli.base import printable


def new_console(stderr: bool = False) -> Console:
    """The terminal; 120 columns without one, since rich would take 80 and cut addresses. Texts are printed as
    they are: ``[b]`` and ``:name:`` are no markup."""
    console = Console(markup=False, emoji=False, stderr=stderr)
    return console if console.is_terminal else Console(width=120, markup=False, emoji=False, stderr=stderr)


def print_line(console: Console, text: str) -> None:
    """Print a line as it is, wrapped by the terminal only."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print one document for a program; values that JSON does not have as texts: bytes in base64."""
    print(json.dumps(_plain(document), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case bytes():
            return b64encode(value).decode()
        case float() if not isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
    return str(value)
