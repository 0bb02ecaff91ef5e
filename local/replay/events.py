"""Event n of the feed, as a pure function of the recording, a seed and the time of event 0."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from local.base import REPO

RECORDING = REPO / "samples" / "wiki_changes" / "recentchange.jsonl"
TOPIC = "codfw.mediawiki.recentchange"
_SPACE = UUID("6f2c1f0e-6d3c-5d41-9a3e-0d9c7c0a5d11")
# Entries of the tables of users and servers, filled by rank.
_TABLE = 4096
_DRAWN = 65_536
# Maximum seconds between a change and its event.
_BEFORE = 4
# The wikis with most edits come first, as the feed is stretched by rank.
_WIKIPEDIAS = (
    "en de fr es ru it ja zh pl pt uk ar fa nl vi sv he cs ko id tr hu fi ca no ro sr bg da el sk hr hy eu "
    "lt et ce jv ms sl th hi bn ta te ka az kk uz be gl eo la cy sq mk bs lv ml mr ur sw tl is ga af"
)
SERVERS: tuple[tuple[str, str], ...] = (
    ("www.wikidata.org", "wikidatawiki"),
    ("commons.wikimedia.org", "commonswiki"),
    *((f"{language}.wikipedia.org", f"{language}wiki") for language in _WIKIPEDIAS.split()),
    *((f"{language}.wiktionary.org", f"{language}wiktionary") for language in ("en", "fr", "ms", "jv", "ru")),
    *((f"{language}.wikisource.org", f"{language}wikisource") for language in ("en", "fr", "pl", "de")),
)


@dataclass(frozen=True)
class RateChange:
    """From event `n` on, which happens at `at` (seconds since 1970): `rate` events per second."""

    n: int
    at: float
    rate: float


def when(schedule: Sequence[RateChange], n: int) -> float:
    """The time of event n. Before the first change, its rate counts backwards."""
    change = schedule[0]
    if len(schedule) > 1:
        change = schedule[max(0, bisect_right(schedule, n, key=lambda change: change.n) - 1)]
    return change.at + (n - change.n) / change.rate


def reached(schedule: Sequence[RateChange], now: float) -> int:
    """The first event that has not happened by `now`."""
    change = schedule[max(0, bisect_right(schedule, now, key=lambda change: change.at) - 1)]
    return change.n + max(0, int((now - change.at) * change.rate))


def burst(schedule: Sequence[RateChange], n: int, events: int, rate: float) -> tuple[RateChange, ...]:
    """From event n on `events` events at `rate`, then the first rate again; later changes are dropped."""
    at = when(schedule, n)
    past = [change for change in schedule if change.n < n] or [replace(schedule[0], n=n, at=at)]
    return (*past, RateChange(n, at, rate), RateChange(n + events, at + events / rate, schedule[0].rate))


@dataclass(frozen=True)
class User:
    """An editor."""

    name: str
    bot: bool


def users(known: Sequence[User], count: int) -> list[User]:
    """`count` users by rank: the recording's own first, then made-up ones, one in seven of them a bot."""
    new = (User(f"Editor {n}", False) if n % 7 else User(f"Helper{n}Bot", True) for n in range(1, count + 1))
    return [*known, *new][: max(1, count)]


def by_rank(count: int, share: float) -> int:
    """A rank from 0 to `count` - 1 out of `share` in [0, 1), distributed by Zipf's law: rank r is about
    1/(r + 1) as frequent as the first."""
    # The inverse of the log-uniform distribution function.
    return min(count - 1, int((count + 1) ** share) - 1)


def recorded(path: Path = RECORDING) -> tuple[dict[str, Any], ...]:
    """The recorded events, one JSON object a line."""
    return tuple(json.loads(line) for line in path.read_text().splitlines() if line.strip())


@dataclass(frozen=True)
class Feed:
    """The recording, stretched: event n has the shape of recorded event n modulo their number, its own id,
    and the time `start` + n / `rate`, changed by `rate_changes`.

    `start`: seconds since 1970. `rate`: events per second of the events' own time. `seed`: another one draws
    other ids, users and servers. `servers`, `users`: their numbers. `late_share`: share of the changes that
    were made `late_seconds` before their event. `recording`: one object of the feed's JSON per event.
    """

    start: float
    rate: float = 50.0
    seed: int = 1
    servers: int = 60
    users: int = 2_000
    late_share: float = 0.002
    late_seconds: int = 2_700
    rate_changes: tuple[RateChange, ...] = ()
    recording: tuple[Mapping[str, Any], ...] = field(default_factory=recorded, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.servers <= len(SERVERS):
            raise ValueError(f"servers is {self.servers}: between 1 and {len(SERVERS)}")
        if self.rate <= 0 or self.users < 1 or not 0 <= self.late_share <= 1:
            raise ValueError(f"{self}: rate above 0, users from 1, late_share from 0 to 1")

    def event_id(self, n: int) -> str:
        """`meta.id` of event n; depends on the seed and n alone."""
        return str(self._draw(n))

    @cached_property
    def schedule(self) -> tuple[RateChange, ...]:
        return (RateChange(0, self.start, self.rate), *self.rate_changes)

    def at(self, n: int) -> float:
        """The time of event n (`meta.dt`), seconds since 1970."""
        return when(self.schedule, n)

    def data(self, n: int) -> str:
        """Event n as the feed sends it: JSON in one line."""
        drawn = self._draw(n)
        number = drawn.int
        at = self.at(n)
        text = self._template(n % len(self.recording), self._servers[(number >> 12) % _TABLE])
        return text % {
            "id": drawn,
            "n": n,
            "dt": f"{_second(int(at))}.{int(at % 1 * 1000):03}Z",
            "timestamp": self._changed(n, number),
            "user": self._users[number % _TABLE][1],
        }

    # One draw per event; each property takes other bits of it.

    def _draw(self, n: int) -> UUID:
        return uuid5(_SPACE, f"{self.seed}/{n}")

    def _late(self, number: int) -> bool:
        return (number >> 24) % _DRAWN < self.late_share * _DRAWN

    def _changed(self, n: int, number: int) -> int:
        before = self.late_seconds if self._late(number) else (number >> 40) % _BEFORE
        return int(self.at(n)) - before

    @cached_property
    def _users(self) -> list[tuple[User, str]]:
        # By draw: the user, and both of its fields as JSON.
        known = {str(event["user"]): bool(event["bot"]) for event in self.recording}
        ranked = users([User(name, bot) for name, bot in known.items()], self.users)
        drawn = [ranked[by_rank(len(ranked), index / _TABLE)] for index in range(_TABLE)]
        return [
            (user, f'{json.dumps(user.name, ensure_ascii=False)},"bot":{json.dumps(user.bot)}')
            for user in drawn
        ]

    @cached_property
    def _servers(self) -> list[int]:
        return [by_rank(self.servers, index / _TABLE) for index in range(_TABLE)]

    @cached_property
    def _templates(self) -> dict[tuple[int, int], str]:
        return {}

    def _template(self, shape: int, server: int) -> str:
        key = (shape, server)
        if key not in self._templates:
            self._templates[key] = template(self.recording[shape], *SERVERS[server])
        return self._templates[key]


def template(event: Mapping[str, Any], server: str, wiki: str) -> str:
    """A recorded event, moved to another wiki, as a %-format with `id`, `n`, `dt`, `timestamp` and `user`
    (which is followed by `bot`)."""
    recorded_at = str(event["server_name"])
    moved = json.loads(json.dumps(event).replace(f"//{recorded_at}/", f"//{server}/"))
    meta = moved["meta"]
    meta |= {"domain": server, "id": _open("id"), "dt": _open("dt"), "topic": TOPIC, "offset": _open("n")}
    moved |= {"server_name": server, "server_url": f"https://{server}", "wiki": wiki}
    moved |= {"timestamp": _open("timestamp"), "user": _open("user")}
    # It is part of the user's field.
    del moved["bot"]
    if "id" in moved:
        moved["id"] = _open("n")
    line = json.dumps(moved, ensure_ascii=False, separators=(",", ":")).replace("%", "%%")
    for name, form in (("id", '"%(id)s"'), ("dt", '"%(dt)s"'), ("user", "%(user)s")):
        line = line.replace(f'"{_open(name)}"', form)
    for name in ("n", "timestamp"):
        line = line.replace(f'"{_open(name)}"', f"%({name})d")
    return line


def _open(name: str) -> str:
    # Private use characters: in no recorded text, and JSON leaves them as they are.
    return f"\ue000{name}\ue001"


@lru_cache(maxsize=4096)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
