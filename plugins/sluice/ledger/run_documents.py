"""The ledger's documents of one run; of a backfill's run, which has several loads, the newest load's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.ledger.keys import change_key, load_id_of, load_ids_prefix, load_of, run_key

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger

_KEY = re.compile(r"runs/([^/]+)/([^/]+)\.json")
# What a step adds to a document's name when it writes it again.
_AGAIN = re.compile(r"-\d+(-\d+)?\.json")
# A load's number; other run ids may begin alike.
_NUMBER = re.compile(r"\d{6}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)
# No two clocks differ by more, and Airflow deletes no run so soon.
EARLIER = timedelta(days=1)


def pin(
    ledger: Ledger,
    run_id: str,
    name: str,
    create: Callable[[], Document],
    triggered: datetime | None = None,
) -> Document:
    """The run's document, written now if there is none. ``triggered``: when a person or another DAG
    triggered the run, aware; None of other runs.

    Raises Refused if it was written more than EARLIER before: by a run with the same id, which Airflow has
    deleted since. Its results would pass for those of this run, which would do nothing.
    """
    document = ledger.get(run_key(run_id, name))
    if document is None:
        # Whatever the clocks say, it is this run's.
        return ledger.put(run_key(run_id, name), create())
    if triggered is not None and triggered - _written_at(document, triggered) > EARLIER:
        raise Refused(
            f"run id {run_id!r} has a plan of {document['at']} ({ledger.uri(run_key(run_id, name))}), and "
            f"this run was triggered at {triggered.isoformat(timespec='seconds')}: the plan is an earlier "
            "run's, which Airflow has deleted. A run id keeps its plan; nothing was done. Fix: trigger a run "
            "with another run id",
            ErrorCode.RUN_ID_REUSED,
        )
    return document


def newest_load(ledger: Ledger, run_id: str) -> str | None:
    """The load id of the newest plan of a backfill's run; None before task `produce`.

    A binary search over the loads' numbers, in LISTs of one key: 3 for one load, some 30 for 10,000.
    """
    newest, step = _load_after(ledger, run_id, 0), 1
    if newest is None:
        return None
    while (found := _load_after(ledger, run_id, newest + step - 1)) is not None:
        newest, step = found, 2 * step
    # None is above it.
    bound = newest + step - 1
    while newest < bound:
        middle = (newest + bound) // 2
        if (found := _load_after(ledger, run_id, middle)) is not None:
            newest = found
        else:
            bound = middle
    # The baseline is written before the plan: of the newest number that may be all there is.
    loads = (_load(run_id, number) for number in range(newest, 0, -1))
    return next((load for load in loads if any(ledger.keys(run_key(load, "plan"), limit=1))), None)


def _load(run_id: str, number: int) -> str:
    return load_id_of(run_id, f"{run_id}#{number - 1}")


def _load_after(ledger: Ledger, run_id: str, number: int) -> int | None:
    """The lowest number above this one of the run's loads that have a document: one LIST of one key."""
    # "0" sorts behind the slash after the number.
    last = run_key(_load(run_id, number), "").removesuffix("/.json")
    for key in ledger.keys(load_ids_prefix(run_id), limit=1, after=f"{last}0"):
        load = load_of(key) or ""
        if found := _NUMBER.fullmatch(load.removeprefix(f"{run_id}#")):
            return int(found[0])
    return None


def newest(ledger: Ledger, run_id: str, name: str) -> tuple[str, Document] | None:
    """Key and document: ``<name>.json``, or if its step wrote it again the newest ``<name>-<number>``."""
    first = run_key(run_id, name)
    stem = first.removesuffix(".json")
    again = (key for key in ledger.keys(f"{stem}-") if _AGAIN.fullmatch(key.removeprefix(stem)))
    found = [(key, document) for key in (first, *again) if (document := ledger.get(key)) is not None]
    # If seconds are equal, the later one in the list.
    return sorted(found, key=lambda one: _written_at(one[1]))[-1] if found else None


def proof_key(ledger: Ledger, run_id: str) -> str:
    """Return the key of the load's newest proof; without any, of its first."""
    found = newest(ledger, run_id, "proof")
    return found[0] if found else run_key(run_id, "proof")


def add(ledger: Ledger, run_id: str, name: str, document: Document) -> None:
    """Write ``<name>.json``; if that is another document, ``<name>-<number>`` beside it. If there are
    several, :func:`newest` finds the one with the latest ``at``. Raises Refused if that is taken too."""
    if ledger.put(run_key(run_id, name), document) == document:
        return
    micros = (datetime.fromisoformat(document["at"]) - _EPOCH) // timedelta(microseconds=1)
    key = run_key(run_id, f"{name}-{micros}")
    if ledger.put(key, document) != document:
        raise Refused(f"ledger document {ledger.uri(key)} exists with another content. Fix: clear this task")


def find(ledger: Ledger, run_id: str, name: str) -> tuple[str, Document] | None:
    """As :func:`newest`, of a backfill's run by its run id too."""
    found = newest(ledger, run_id, name)
    if found is None and (load := newest_load(ledger, run_id)):
        return newest(ledger, load, name)
    return found


def run_of_change(ledger: Ledger, change: str) -> str | None:
    """The run id of a change, if the ledger names it."""
    found = ledger.get(change_key(change))
    return str(found["run_id"]) if found else None


def names(ledger: Ledger, run_id: str) -> Iterator[tuple[str, str]]:
    """(run or load id, name) of the run's documents, those of a backfill's loads behind its own."""
    # Up to the slash: another run's id may begin with this one.
    own = run_key(run_id, "").removesuffix(".json")
    for key in chain(ledger.keys(own), ledger.keys(load_ids_prefix(run_id))):
        if found := _KEY.fullmatch(key):
            yield unquote(found[1]), found[2]


def _written_at(document: Document, default: datetime = _FIRST) -> datetime:
    return datetime.fromisoformat(document["at"]) if "at" in document else default
