"""The environment of a child process, with the variables to which its role's platform file refers, and none
that another role's does. Little of the standard library only: the parent process of a component reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluice.core.processes.environment import child_environment

# ruff: noqa: PTH123, PTH208 - `pathlib` is more memory in each parent process.
# As sluice.config.platform has it, which takes too much memory to import here.
DIRECTORY_VARIABLE = "SLUICE_PLATFORM_DIR"
_JOBS = "spark_jobs"
# Only a file that has the word is parsed.
_MAY_REFER = re.compile(r"\benv\b")


def role_of(job: str) -> str:
    """The role whose platform file a job of ``spark_jobs/__main__.py`` reads."""
    return "producer" if job == "producer" else "consumer"


def role_in(command: Sequence[str]) -> str:
    """The role of a component's command; empty for another one."""
    following = command[command.index(_JOBS) + 1 :] if _JOBS in command else ()
    return role_of(following[0]) if following else ""


def referenced(environ: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Role -> the variables to which its platform file refers, of the files that this process can read.

    What cannot be read refers to none, so nothing is passed on for it: the child says what is wrong with it.
    """
    folder = environ.get(DIRECTORY_VARIABLE, "")
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".toml")] if folder else []
    except OSError:
        return {}
    return {name.removesuffix(".toml"): frozenset(_names(f"{folder}/{name}")) for name in names}


def environment_of(role: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process that reads the platform file of ``role``; empty: of none."""
    found = referenced(environ)
    needed = found.get(role, frozenset())
    named = frozenset().union(*found.values())
    allowed = child_environment(environ)
    return {name: value for name, value in environ.items() if name in needed} | {
        name: value for name, value in allowed.items() if name not in named
    }


def withheld(role: str, environ: Mapping[str, str]) -> list[str]:
    """Names of the variables that :func:`environment_of` leaves out."""
    return sorted(set(environ) - set(environment_of(role, environ)))


def _names(path: str) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if _MAY_REFER.search(text):
            import tomllib

            yield from _in(tomllib.loads(text))
    except (OSError, ValueError):
        return


def _in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if list(value) == ["env"] and isinstance(value["env"], str):
            yield value["env"]
        for element in value.values():
            yield from _in(element)
