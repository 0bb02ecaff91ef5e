"""The ends of all roles whose platform files are there, asked at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.request import getproxies

from sluice.config.platform import DIRECTORY_VARIABLE, ROLES, Platform
from sluice.config.reading.toml import ConfigError, secrets
from sluice.config.reading.values import secrets_in
from sluice.connection_check.needs import Needs
from sluice.connection_check.probing.ends import ends_of
from sluice.connection_check.rows import Row
from sluice.connection_check.run import End, Say, look


def roles_here(environ: Mapping[str, str] | None = None) -> list[str]:
    """The roles whose platform files are in the folder. Raises ConfigError without one."""
    folder = (os.environ if environ is None else environ).get(DIRECTORY_VARIABLE, "")
    found = [role for role in ROLES if folder and (Path(folder) / f"{role}.toml").exists()]
    if not found:
        raise ConfigError(
            f"{DIRECTORY_VARIABLE} is {folder!r}, a folder without a platform file. Fix: set it to the "
            "folder of airflow.toml and the other roles' files"
        )
    return found


def check(
    roles: Sequence[str],
    load: Callable[[str], Platform],
    needs: Needs,
    further: Sequence[End] = (),
    say: Say = lambda _: None,
) -> list[Row]:
    """Look at every end of the roles' platform files, and at ``further`` ones. ``load``: the file of a role;
    one that is invalid is a row that says so."""
    ends: list[End] = []
    hidden: list[str] = []
    for role in roles:
        try:
            platform = load(role)
            hidden += secrets(platform)
            ends += ends_of(platform, needs)
        except ConfigError as error:
            ends.append(End(Row(role, "platform file", f"{role}.toml", problems=[str(error)]), _nothing))
    # Some clients name the proxy that they go through.
    hidden += [one for address in getproxies().values() for one in secrets_in(address)]
    return look([*ends, *further], say, secrets=hidden)


def _nothing(rows: list[Row]) -> None:
    """Its row says already what is wrong."""


def not_here(roles: Sequence[str]) -> str:
    """What to say of roles that were not looked at; empty if there are none."""
    left = [role for role in ROLES if role not in roles]
    if not left:
        return ""
    return f"not looked at: {', '.join(left)}, whose platform files are not here, or were not asked for"
