"""Plans of a backfill's run: one per state of the interval's files.

A reprocessed run keeps its run id, so each of its plans has a load id: the run id and a number. Task
`produce` plans again whenever it runs; if the files to load are those of the newest plan, that one goes on,
else the next is pinned. So a retry resumes, and late and corrected files are seen. What a file's rows need
(start offsets, whether they were sent) is recorded per source: one in two plans is still sent once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.config.sections.backfill import Backfill, again, literal_prefix, matches
from sluice.core.csv.form import SUFFIXES
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Unreachable
from sluice.core.json_record import Document
from sluice.ledger.keys import load_id_of
from sluice.ledger.run_documents import newest_load
from sluice.loads.known.contents import Known
from sluice.loads.known.index import Found, ObjectContents
from sluice.loads.known.verified import NewSources, VerifiedSources, without_verified
from sluice.loads.planning import plan as plans
from sluice.loads.sources import csv_object

if TYPE_CHECKING:
    from sluice.clients.s3.objects import Bucket
    from sluice.ledger.documents import Ledger
    from sluice.loads.planning.plan import LoadPlanner

ATTEMPTS = 5
# The plan's params: they are the run's interval, not a form's values.
FORM = {"interval": None, "pattern": None}


def require_newest(ledger: Ledger, run_id: str) -> str:
    """Raises Missing before task `produce`."""
    load = newest_load(ledger, run_id)
    if load is None:
        raise Missing(f"run {run_id!r} of {ledger.stream} has no plan. Fix: clear its produce task")
    return load


@dataclass(frozen=True)
class IntervalFiles:
    """Plans the files of ``backfill`` in ``bucket``; the plans are in ``ledger``. ``verified``: made again
    for each plan; ``baseline`` records where the tables are before the load with this id."""

    ledger: Ledger
    bucket: Bucket
    backfill: Backfill
    verified: Callable[[], VerifiedSources]
    baseline: Callable[[str], Any]

    def pin(self, planner: LoadPlanner, run_id: str, begin: datetime) -> Document:
        """The run's newest plan if it has the files that are to be loaded now, or the next one. ``planner``:
        with FORM.

        Raises Missing if the interval has no file, Refused for a file without a header line, Unreachable if
        the files never stay the same.
        """
        params = {"interval": begin.isoformat(), "pattern": self.backfill.keys(begin)}
        for _ in range(ATTEMPTS):
            load = newest_load(self.ledger, run_id)
            before = plans.plan_of(self.ledger, load) if load else None
            found = self.find(begin)
            if before is not None and _is_same(before, found):
                return before
            load = load_id_of(run_id, load)
            self.baseline(load)
            plan = planner.pin(load, params, lambda _, found=found: found)  # type: ignore[misc]
            # Else another attempt of the task pinned it meanwhile, when there were other files.
            if _is_same(plan, found):
                return plan
        raise Unreachable(
            f"the files {params['pattern']} of run {run_id!r} changed at each of {ATTEMPTS} attempts to plan "
            "them. Fix: wait until they are uploaded, and clear the produce task",
            ErrorCode.SYSTEM_UNREACHABLE,
        )

    def find(self, begin: datetime) -> NewSources:
        """The current versions of the interval's objects that no load verified, without corrected files; they
        are in the index of contents.

        ``more``: ``corrected``, those of which other content was planned and not taken out by a change, so
        its rows may be in the table; ``uploaded_again``, those with the content of an earlier version;
        ``files``, all current ones, each with the source that has its rows.
        """
        pattern = self.backfill.keys(begin)
        current = self.bucket.current(literal_prefix(pattern), lambda key: matches(pattern, key))
        if not current:
            raise Missing(
                f"s3://{self.bucket.name}/{pattern}: no object of this interval ends in "
                f"{' or '.join(SUFFIXES)}. Fix: upload it, or correct [backfill] pattern; then "
                f"{again(self.ledger.stream, begin)}",
                ErrorCode.INTERVAL_EMPTY,
            )
        verified = self.verified()
        new = NewSources([], {"count": 0})

        def choose(found: list[Found]) -> list[Found]:
            nonlocal new
            new = self._without_corrected(found, verified)
            planned = {source["source_id"] for source in new}
            chosen = [one for one in found if one.source_id in planned]
            csv_object.check_headers(self.bucket, [one.version for one in chosen if one.is_own])
            return [one for one in found if one.source_id in planned or one.known is Known.SAME]

        contents = ObjectContents(self.ledger, self.bucket, verified, single=current.single)
        contents.claim(current, choose)
        return new

    @staticmethod
    def _without_corrected(found: list[Found], verified: VerifiedSources) -> NewSources:
        reverted = [one.source_id for one in found if one.known is Known.REVERTED]
        loadable = [one for one in found if one.known not in (Known.CHANGED, Known.REVERTED)]
        new = without_verified([one.document() for one in loadable], verified)
        not_loaded = {source["source_id"] for source in new}
        corrected = [
            _corrected(one, is_loaded=one.known is not Known.CHANGED and one.source_id not in not_loaded)
            for one in found
            if one.others
        ]
        left_out = {one.source_id for one in found if one.others}
        more = {
            "corrected": corrected,
            "uploaded_again": [one.uploaded_again() for one in found if not one.is_own],
            "files": [{"source_id": one.source_id, "key": one.version.key} for one in found],
        }
        to_load = (source for source in new if source["source_id"] not in left_out)
        return NewSources(to_load, new.verified, [*new.reverted, *reverted], more)


def _corrected(one: Found, *, is_loaded: bool) -> Document:
    other, version = one.others[-1], one.version
    return {
        "source_id": version.source_id,
        "bucket": version.bucket,
        "key": version.key,
        "version_id": version.version_id,
        "loaded": other.source_id,
        "loaded_version_id": other.version_id,
        "is_loaded": is_loaded,
    }


def corrected_message(one: Document, stream: str) -> str:
    """A corrected file of a plan, and what to do."""
    load = (
        "" if one["is_loaded"] else f"trigger {stream}_load with objects={one['key']} and withhold, and then "
    )
    return (
        f"corrected file s3://{one['bucket']}/{one['key']}: the rows of its version "
        f"{one['loaded_version_id']} are loaded, its newest version {one['version_id']} is "
        f"{'loaded beside them, or withheld' if one['is_loaded'] else 'not'}. "
        f"Fix: {load}trigger {stream}_change with action=replace, object={one['key']}"
    )


def reverted_message(key: str, stream: str) -> str:
    return (
        f"{key}: a change took its rows out. Fix: trigger {stream}_change with action=redo and the run id of "
        "its load, or delete the object if the interval is complete without it"
    )


def _is_same(plan: Document, found: NewSources) -> bool:
    """Whether the plan has the same files to load, and leaves out the same."""
    return (
        _ids(plan["sources"]) == _ids(found)
        and all(plan[name] == found.more[name] for name in ("corrected", "uploaded_again"))
        and plan["reverted"] == found.reverted
        and _ids(plan["files"]) == _ids(found.more["files"])
    )


def _ids(documents: list[Document]) -> set[str]:
    return {document["source_id"] for document in documents}
