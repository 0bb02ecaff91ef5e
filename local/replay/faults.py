"""What the replay server does wrong, as plain data; it can be changed while the server runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

# How a connection is cut: `end`, the answer ends as it should, after a whole event; `drop`, the connection
# is closed after a whole event, and the answer was not over; `half`, the same in the middle of an event;
# `half_end`, the answer ends as it should, in the middle of an event; `reset`, the connection is reset, and
# what is under way is lost; `hang`, half an event, and then nothing at all while the connection stays.
CUTS = ("end", "drop", "half", "half_end", "reset", "hang")
# What may be odd about an event. Not JSON: `broken`. JSON and no event: `list`, `no_meta_id`. As good as any
# other: `multi_line` (JSON over several `data:` lines), `comment` (comment lines in the middle),
# `no_sse_id` (no `id:` line), `legacy` (the shape of recentchange/2), `crlf` (lines end as in HTTP).
KINDS = ("broken", "multi_line", "comment", "no_sse_id", "no_meta_id", "legacy", "list", "crlf")
POISON = ("broken", "no_meta_id", "list")


@dataclass(frozen=True)
class Faults:
    """Everything off by default.

    `cut_every`: a connection is cut as `cut` says after so many events; `cut_times`: so often, 0 for always.
    `refuse`: the next so many requests are answered with `refuse_status`; `refuse_seconds`: all of so long.
    `retry_after`: seconds, said with a refusal; 0 leaves it out.
    `silence_seconds`: for so long nothing is sent over any connection, not even a sign of life.
    `bytes_per_second`: of each connection; 0 for as fast as it is read.
    `odd_every`: every so many events one is odd, in turn of the kinds in `odd` (names with a comma between).
    `canary_every`: every so many events one is a canary (`meta.domain` is `canary`).
    `repeat`: a connection that resumes gets so many events again that it has had.
    """

    cut_every: int = 0
    cut: str = "half"
    cut_times: int = 0
    refuse: int = 0
    refuse_status: int = 503
    refuse_seconds: float = 0.0
    retry_after: int = 0
    silence_seconds: float = 0.0
    bytes_per_second: int = 0
    odd_every: int = 0
    odd: str = ",".join(KINDS)
    canary_every: int = 0
    repeat: int = 0

    def __post_init__(self) -> None:
        for name in NAMES:
            value = getattr(self, name)
            if not isinstance(value, str) and value < 0:
                raise ValueError(f"{name} is {value}: 0 or more")
        if self.cut not in CUTS:
            raise ValueError(f"cut is {self.cut!r}: one of {', '.join(CUTS)}")
        unknown = [kind for kind in self.kinds if kind not in KINDS]
        if unknown or not self.kinds:
            raise ValueError(f"odd is {self.odd!r}: some of {', '.join(KINDS)}")
        if not 400 <= self.refuse_status <= 599:
            raise ValueError(f"refuse_status is {self.refuse_status}: 400 to 599")

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.odd.split(","))

    def changed(self, wanted: Mapping[str, Any]) -> Faults:
        """These with some changed. Raises ValueError, with the known names, for what is no fault."""
        unknown = sorted(set(wanted) - set(NAMES))
        if unknown:
            raise ValueError(f"no fault is called {unknown[0]!r}; there are {', '.join(NAMES)}")
        return replace(self, **{name: _typed(name, value) for name, value in wanted.items()})

    def odd_kind(self, n: int) -> str | None:
        """What is odd about event n: a kind, `canary`, or None."""
        if self.canary_every and n % self.canary_every == self.canary_every - 1:
            return "canary"
        if self.odd_every and n % self.odd_every == self.odd_every - 1:
            return self.kinds[n // self.odd_every % len(self.kinds)]
        return None


NAMES = tuple(field.name for field in fields(Faults))
_NO_FAULTS = Faults()


def _typed(name: str, value: Any) -> Any:
    wanted = type(getattr(_NO_FAULTS, name))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{name} is {value!r}: give a {wanted.__name__}")
    try:
        return wanted(value)
    except ValueError as error:
        raise ValueError(f"{name} is {value!r}: give a {wanted.__name__}") from error
