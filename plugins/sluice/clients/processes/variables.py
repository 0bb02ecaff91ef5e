"""The environment of a child process, with the variables to which its role's platform file refers or that its
login reads, and none of another role's.

Little of the standard library only: the parent process of a component reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from sluice.core.processes.environment import AWS_CHAIN, child_environment, of_aws_login, referenced_by

# ruff: noqa: PTH123, PTH208 - `pathlib` is more memory in each parent process.
# As sluice.config.platform has it, which takes too much memory to import here.
DIRECTORY_VARIABLE = "SLUICE_PLATFORM_DIR"
_JOBS = "spark_jobs"
# Only a file that has the word is parsed, unless a login of AWS is in the environment.
_MAY_REFER = re.compile(r"\benv\b")


def role_of(job: str) -> str:
    """The role whose platform file a job of ``spark_jobs/__main__.py`` reads."""
    return "producer" if job == "producer" else "consumer"


def role_in(command: Sequence[str]) -> str:
    """The role of a component's command; empty for another one."""
    following = command[command.index(_JOBS) + 1 :] if _JOBS in command else ()
    return role_of(following[0]) if following else ""


def referenced(environ: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Role -> the variables to which its platform file refers, and those of AWS that its login reads, of the
    files that this process can read.

    What cannot be read refers to none, so nothing is passed on for it: the child says what is wrong with it.
    """
    folder = environ.get(DIRECTORY_VARIABLE, "")
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".toml")] if folder else []
    except OSError:
        return {}
    return {name.removesuffix(".toml"): frozenset(_needed(f"{folder}/{name}", environ)) for name in names}


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


def _needed(path: str, environ: Mapping[str, str]) -> Iterator[str]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        has_login = not AWS_CHAIN.isdisjoint(environ)
        if has_login or _MAY_REFER.search(text):
            import tomllib

            document = tomllib.loads(text)
            yield from referenced_by(document)
            if has_login:
                yield from of_aws_login(document)
    except (OSError, ValueError):
        return
