"""The ends of all roles whose platform files are there, asked at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.request import getproxies

from sluice.clients.jvm_proxies import jvm_proxies
from sluice.clients.proxies import ProxyUnusable
from sluice.config.platform import DIRECTORY_VARIABLE, ROLES, Platform
from sluice.config.reading.toml import ConfigError, secrets
from sluice.config.reading.values import secrets_in
from sluice.connection_check.files import is_of_another, unreadable
from sluice.connection_check.needs import Needs
from sluice.connection_check.probing.ends import ends_of
from sluice.connection_check.rows import Row
from sluice.connection_check.run import End, Say, look
from sluice.core.messages import summarize

# As which jobs of Spark run.
_JOBS = ("producer", "consumer", "reader")


def roles_here(environ: Mapping[str, str] | None = None) -> list[str]:
    """The roles whose platform files are in the folder. Raises ConfigError without one."""
    folder = (os.environ if environ is None else environ).get(DIRECTORY_VARIABLE, "")
    found = [role for role in ROLES if folder and _is_there(Path(folder) / f"{role}.toml")]
    if not found:
        raise ConfigError(
            f"{DIRECTORY_VARIABLE} is {folder!r}, a folder without a platform file. Fix: set it to the "
            "folder of airflow.toml and the other roles' files"
        )
    return found


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # The folder is for another user: reading it says so.
        return True


def check(
    roles: Sequence[str],
    load: Callable[[str], Platform],
    needs: Needs,
    further: Sequence[End] = (),
    say: Say = lambda _: None,
    *,
    own: Sequence[str] = (),
) -> list[Row]:
    """Look at every end of the roles' platform files, and at ``further`` ones. ``load``: the file of a role;
    one that is invalid is a row that says so.

    ``own``: the roles that this process is. Of another role a file that is not there, or not for this
    process, is no failure of that role: its row says that it was not looked at.
    """
    ends: list[End] = []
    hidden: list[str] = []
    for role in roles:
        try:
            platform = load(role)
            hidden += secrets(platform)
            lost = unreadable(platform)
            if not lost or role in own:
                ends += [*ends_of(platform, needs), *_of_jvm(platform)]
            if lost:
                ends.append(_of_file(role, f"it names {summarize(lost, 8)}", is_own=role in own))
        except ConfigError as error:
            is_own = role in own or not is_of_another(error)
            ends.append(_of_file(role, str(error), is_own=is_own))
    # Some clients name the proxy that they go through.
    hidden += [one for address in getproxies().values() for one in secrets_in(address)]
    return look([*ends, *further], say, secrets=hidden)


def _nothing(rows: list[Row]) -> None:
    """Its row says already what is wrong."""


def _of_file(role: str, reason: str, *, is_own: bool) -> End:
    """The row of a platform file, or of what it names, that could not be read."""
    row = Row(role, "platform file", f"{role}.toml")
    if is_own:
        fix = "" if "Fix: " in reason else ". Fix: put it there, readable for this process"
        row.problems.append(f"{reason}{fix}")
    else:
        row.not_looked_at = f"{reason.partition('. Fix: ')[0]}. Fix: {_as(role)}, or put it there"
    return End(row, _nothing)


def _of_jvm(platform: Platform) -> Iterator[End]:
    """A row for what a job's JVM cannot go through, where Python's clients can."""
    if platform.role in _JOBS:
        try:
            jvm_proxies(platform)
        except ProxyUnusable as error:
            yield End(Row(platform.role, "proxy of jobs", "", problems=[str(error)]), _nothing)


def _as(role: str) -> str:
    return f"run sluice check-connections --role {role} as role {role}, where its files are"


def elsewhere(roles: Sequence[str]) -> list[Row]:
    """A row for each role whose platform file is not here, which is by design where each role has a machine,
    or pods, of its own."""
    reason = "its platform file is not here"
    return [
        Row(role, "platform file", f"{role}.toml", not_looked_at=f"{reason}. Fix: {_as(role)}")
        for role in ROLES
        if role not in roles
    ]
