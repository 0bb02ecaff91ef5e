"""What was found of each end, in rows: what of it is a problem, and how rows are shown. Pure.

A problem ends the check with 1: an end that does not answer, a login that is refused, a right that is
missing, a certificate or token that has ended or is about to, a clock that is off. A remark does not: a right
that is too many, and what could not be asked, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.config.reading.values import shown_address
from sluice.core.json_record import Document
from sluice.core.messages import UNKNOWN, age, aligned, counted, iso, summarize

# Before its end a certificate is about to end: a third of its time, as far as it is no more than two weeks.
SOON_SECONDS, SOON_SHARE = 14 * 86400.0, 1 / 3
# That of a token which another process writes again: the kubelet does when a fifth of its time is left.
WRITTEN_SHARE = 0.1
# As far as machines' clocks differ that are set. AWS refuses requests from 15 minutes on, most token issuers
# from one minute on.
CLOCK_SECONDS = 60.0
# S3 and web servers say the time to the second only.
CLOCK_STEP_SECONDS = 2.0
# The end of a database of results, before the id of its Airflow connection.
CONNECTION = "connection"
# Why a row that its end adds was not asked itself, until it was.
PENDING = "the end that names it ran out of time, or failed, before. Fix: see that end"
PLAIN_TEXT, UNVERIFIED = "plain text", ", not verified"
HEAD = ("role", "end", "address", "login", "TLS", "certificate", "own", "token", "clock", "rights", "state")


@dataclass(frozen=True)
class Span:
    """From when until when something is valid, in seconds since 1970."""

    begins: float
    ends: float
    whose: str = ""
    """Name of a certificate behind the first of a chain; empty: the first."""

    def is_about_to_end(self, now: float, share: float = SOON_SHARE) -> bool:
        return self.ends - now < min(SOON_SECONDS, (self.ends - self.begins) * share)


def is_valid(span: Span, now: float) -> bool:
    """Whether it has begun, as far as clocks differ, and has not ended."""
    return span.begins - CLOCK_SECONDS <= now < span.ends


@dataclass(frozen=True)
class Rights:
    """What was asked of rights, each in words: those that are ``missing`` and those that are ``excess``;
    ``asked``: how many."""

    missing: tuple[str, ...] = ()
    excess: tuple[str, ...] = ()
    asked: int = 0

    def __str__(self) -> str:
        if not self.asked:
            return UNKNOWN
        found = [f"{len(self.missing)} missing"] if self.missing else []
        found += [f"{len(self.excess)} too many"] if self.excess else []
        return ", ".join(found) or f"{self.asked} as needed"


def compared(asked: Iterable[tuple[str, bool, bool]]) -> Rights:
    """Each a right in words, whether it is needed, and whether it is there."""
    found = list(asked)
    return Rights(
        tuple(name for name, is_needed, is_there in found if is_needed and not is_there),
        tuple(name for name, is_needed, is_there in found if is_there and not is_needed),
        len(found),
    )


@dataclass
class Row:
    """One end, as far as it was looked at."""

    role: str
    """Whose platform file names it, as `consumer`."""
    end: str
    """Its kind, as `kafka`, a section of the platform file, with what of it is meant; or CONNECTION and the
    id of an Airflow connection."""
    address: str
    """Where it is, as :func:`sluice.config.reading.values.shown_address` has it, whatever is assigned."""
    login: str = "none"
    """Kind and name, no secret: `SCRAM-SHA-512 sluice-consumer`."""
    tls: str = ""
    """Version of the connection, as `TLSv1.3`, with UNVERIFIED if anyone could answer; PLAIN_TEXT; empty: not
    known."""
    certificate: tuple[Span, ...] = ()
    """The server's, and those that it is trusted by; empty: it has none, or did not show it."""
    own: tuple[Span, ...] = ()
    """The client's certificate of the login, and those of its file that it is signed by; empty without
    one."""
    authority: Span | None = None
    """The declared CA's that the server is trusted by; that of its file which ends last, where the server did
    not show which; None: the system's."""
    token: Span | None = None
    """The token of the login; None without one, or if it does not say."""
    is_renewed: bool = False
    """Whether the token is fetched again by itself, so that its end is ordinary."""
    is_written: bool = False
    """Whether the token is of a file that another process writes, again before its end."""
    clock: float | None = None
    """Seconds that the server's clock is ahead of this machine's; None: it does not say."""
    rights: Rights = field(default_factory=Rights)
    """Those that were asked."""
    not_looked_at: str = ""
    """Why nothing was asked, with what to do: it is another role's, or PENDING; empty: it was asked."""
    problems: list[str] = field(default_factory=list)
    """Each a line with its fix; any of them fails the check."""
    remarks: list[str] = field(default_factory=list)
    """Each a line; none of them fails it."""

    def __setattr__(self, name: str, value: Any) -> None:
        # No place that makes a row, or corrects its address, has to think of a login in it.
        super().__setattr__(name, shown_address(value) if name == "address" else value)

    @property
    def login_of(self) -> str:
        """Where its login is declared."""
        kind, _, name = self.end.partition(" ")
        return f"Airflow connection {name}" if kind == CONNECTION else f"[{kind}] of {self.role}.toml"

    @property
    def where(self) -> str:
        return f"{self.role} {self.end} {self.address}".strip()

    @property
    def state(self) -> str:
        """Nothing is well that was not looked at."""
        return "FAILED" if self.problems else "not looked at" if self.not_looked_at else "ok"


def with_fix(error: Exception) -> str:
    """An error as a problem: one without an answer has often no fix of its own."""
    text = str(error)
    return text if "Fix: " in text else f"{text}. Fix: start it, or let this machine reach it"


def judge(row: Row, now: float) -> None:
    """Add the problems that follow from what was found; ``now``: this machine's time."""
    token = [row.token] if row.token and not row.is_renewed else []
    place = row.login_of
    renewal = "let what writes its file renew it" if row.is_written else f"write a newer one into {place}"
    renewing = (
        (row.certificate, "the server's certificate", "renew it there"),
        (row.own, "this role's own certificate", "renew it, under the same name"),
        ([row.authority], "the declared CA's certificate", "put the newer one into the same file"),
        (token, "the token", renewal),
    )
    for span, first, fix in ((span, name, fix) for found, name, fix in renewing for span in found if span):
        name = f"the certificate of {span.whose} behind {first}" if _is_behind(span, row) else first
        if span.ends <= now:
            row.problems.append(f"{name} ended {age(now - span.ends)} ago, {iso(span.ends)}. Fix: {fix}")
        elif span.begins - CLOCK_SECONDS > now:
            row.problems.append(
                f"{name} is not yet valid: from {iso(span.begins)} on, in {age(span.begins - now)} by this "
                "machine's clock. Fix: set the clock of this machine, or wait"
            )
        elif span.is_about_to_end(now, WRITTEN_SHARE if row.is_written and span is row.token else SOON_SHARE):
            row.problems.append(f"{name} ends in {age(span.ends - now)}, {iso(span.ends)}. Fix: {fix}")
    if row.tls.endswith(UNVERIFIED) and not row.problems:
        row.remarks.append(
            "encrypted, and anyone between could answer in its place: its certificate is not verified, by "
            "declaration. Fix: declare its CA, and that it is verified (sslmode verify-full)"
        )
    if row.clock is not None and abs(row.clock) > CLOCK_SECONDS:
        side = "behind" if row.clock > 0 else "ahead of"
        row.problems.append(
            f"this machine's clock is {age(abs(row.clock))} {side} the server's. Fix: set the clocks of both "
            "(NTP); logins and tokens are refused meanwhile"
        )
    if row.rights.missing:
        whose = "a database for results" if row.end.startswith(f"{CONNECTION} ") else "its role"
        row.problems.append(
            f"{counted(len(row.rights.missing), 'right')} missing: {summarize(row.rights.missing, 8)}. Fix: "
            f"grant the user of {place} what docs/your-own-systems.md has for {whose}"
        )
    if row.rights.excess:
        row.remarks.append(
            f"{counted(len(row.rights.excess), 'right')} too many: {summarize(row.rights.excess, 8)}"
        )


def _is_behind(span: Span, row: Row) -> bool:
    """Whether it is one behind the first of a chain; the declared CA's is told by itself."""
    return bool(span.whose) and span is not row.authority


def failures(rows: Iterable[Row]) -> list[str]:
    """Each problem as a line of its own that says of which end it is."""
    return [f"{row.where}: {problem}" for row in rows for problem in row.problems]


def remarks(rows: Iterable[Row]) -> list[str]:
    """As :func:`failures`, of what fails nothing."""
    return [f"{row.where}: {remark}" for row in rows for remark in row.remarks]


def not_looked_at(rows: Iterable[Row]) -> list[str]:
    """As :func:`failures`, of what was not looked at."""
    return [f"{row.where} not looked at: {row.not_looked_at}" for row in rows if row.not_looked_at]


def outcome(rows: Sequence[Row]) -> str:
    """How many of those that were looked at failed, or that they are as needed."""
    looked = [row for row in rows if not row.not_looked_at]
    failed = sum(1 for row in looked if row.problems)
    return f"{failed} of {len(looked)} ends failed" if failed else f"all {len(looked)} ends are as needed"


def summary(rows: Sequence[Row]) -> str:
    """The outcome in one line, with the roles that were not looked at, and the ends of others."""
    text = outcome(rows)
    looked = {row.role for row in rows if not row.not_looked_at}
    missed = [row for row in rows if row.not_looked_at]
    names = dict.fromkeys(f"{row.role} {row.end}" if row.role in looked else row.role for row in missed)
    return f"{text}; not looked at: {', '.join(names)}" if names else text


def table(rows: Sequence[Row], now: float) -> str:
    """All rows in aligned columns."""
    return aligned(HEAD, [_cells(row, now) for row in rows]).lstrip("\n")


def _cells(row: Row, now: float) -> tuple[str, ...]:
    return (
        row.role,
        row.end,
        row.address,
        row.login,
        row.tls or UNKNOWN,
        *(_left(spans, now) for spans in (row.certificate, row.own, [row.token] if row.token else ())),
        _clock(row.clock),
        str(row.rights),
        row.state,
    )


def _left(spans: Sequence[Span], now: float) -> str:
    """Until the first end, and whose it is, unless it is that of the first."""
    span = _first(spans)
    if span is None:
        return UNKNOWN
    left = "ended" if span.ends <= now else age(span.ends - now)
    return f"{left} ({span.whose})" if span.whose else left


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return (
        "same" if abs(seconds) <= CLOCK_STEP_SECONDS else f"{'+' if seconds > 0 else '-'}{age(abs(seconds))}"
    )


def documents(rows: Iterable[Row]) -> list[Document]:
    """For programs: a document per row."""
    return [
        {
            "role": row.role,
            "end": row.end,
            "address": row.address,
            "login": row.login,
            "tls": row.tls or None,
            "certificate_ends": _end(_first(row.certificate)),
            "certificate_of": _whose(row.certificate),
            "own_certificate_ends": _end(_first(row.own)),
            "own_certificate_of": _whose(row.own),
            "authority_ends": _end(row.authority),
            "token_ends": _end(row.token),
            "clock_seconds": row.clock,
            "rights_asked": row.rights.asked,
            "rights_missing": list(row.rights.missing),
            "rights_too_many": list(row.rights.excess),
            "is_ok": row.state == "ok",
            "not_looked_at": row.not_looked_at or None,
            "problems": row.problems,
            "remarks": row.remarks,
        }
        for row in rows
    ]


def _first(spans: Sequence[Span]) -> Span | None:
    """The one that ends first."""
    return min(spans, key=lambda one: one.ends, default=None)


def _whose(spans: Sequence[Span]) -> str | None:
    """The name of the one that ends first, if it is behind the first of the chain."""
    found = _first(spans)
    return (found.whose or None) if found else None


def _end(span: Span | None) -> str | None:
    return iso(span.ends) if span else None
