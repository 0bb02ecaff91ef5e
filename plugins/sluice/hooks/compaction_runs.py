"""Which compactions were verified, and which runs removed files since: numbered documents of a run.

A task may be cleared, so a verification is of the attempts that there were when it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.model.spec.ledger import Document, run_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.clients.ledger import Ledger

ATTEMPT, VERIFIED, REMOVED = "compaction-attempt", "compaction-verified", "removed"


def newest(ledger: Ledger, run: str, name: str) -> int:
    """The highest number of the run's documents ``name``-<number>; 0 without any."""
    prefix = run_key(run, f"{name}-").removesuffix(".json")
    return max(
        (int(key.removeprefix(prefix).removesuffix(".json")) for key in ledger.keys(prefix)), default=0
    )


def begin_attempt(ledger: Ledger, run: str) -> None:
    """Record that a compaction of this run may change tables from now on."""
    ledger.put(run_key(run, f"{ATTEMPT}-{newest(ledger, run, ATTEMPT) + 1}"), {"run_id": run})


def record(ledger: Ledger, run: str, name: str, attempt: int, document: Document) -> None:
    """Record that the run's attempts up to number ``attempt`` are ``name``: VERIFIED or REMOVED."""
    ledger.put(run_key(run, f"{name}-{attempt}"), document)


def unverified(ledger: Ledger, runs: Iterable[str]) -> dict[str, str]:
    """Run -> the document that is missing, of each whose newest attempt is not verified.

    ``runs``: newest first, may repeat. None before the newest one that removed files is looked at: it did so
    after all before it were verified.
    """
    found = dict[str, str]()
    seen = set[str]()
    for run in runs:
        if run in seen:
            continue
        seen.add(run)
        attempt = newest(ledger, run, ATTEMPT)
        if newest(ledger, run, VERIFIED) < attempt:
            found[run] = ledger.uri(run_key(run, f"{VERIFIED}-{attempt}"))
        elif ledger.get(run_key(run, f"{REMOVED}-{attempt}")):
            break
    return found
