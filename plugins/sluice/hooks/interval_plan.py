"""Plans of a backfill's run: one per state of the interval's files.

A reprocessed run keeps its run id, so each of its plans has a load id: the run id and a number. Task
`produce` plans again whenever it runs; if the files to load are those of the newest plan, that one goes on,
else the next is pinned. So a retry resumes, and late and corrected files are seen. What a file's rows need
(start offsets, whether they were sent) is recorded per source: one in two plans is still sent once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing, Unreachable
from sluice.clients.run_documents import newest_load
from sluice.hooks import load_plan as plans
from sluice.hooks.verified import NewSources, VerifiedSources, without_verified
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.backfill import Backfill, again, literal_prefix, matches
from sluice.model.spec.ledger import Document, load_id_of, planned_key

if TYPE_CHECKING:
    from sluice.clients.kafka_admin import KafkaAdmin
    from sluice.clients.ledger import Ledger
    from sluice.clients.objects import Bucket, ObjectVersion
    from sluice.hooks.load_plan import Heads

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
    """Plans the files of ``backfill`` in ``bucket``. ``verified``: made again for each plan; ``baseline``
    records where the tables are before the load with this id."""

    ledger: Ledger
    bucket: Bucket
    backfill: Backfill
    verified: Callable[[], VerifiedSources]
    baseline: Callable[[str], Any]

    def pin(self, kafka: KafkaAdmin, run_id: str, begin: datetime, topic: str, heads: Heads) -> Document:
        """The run's newest plan if it has the files that are to be loaded now, or the next one.

        Raises Missing if the interval has no file, Refused for a file without a header line, Unreachable if
        the files never stay the same.
        """
        params = {"interval": begin.isoformat(), "pattern": self.backfill.keys(begin)}
        for _ in range(ATTEMPTS):
            load = newest_load(self.ledger, run_id)
            before = plans.plan_of(self.ledger, load) if load else None
            found = self.find(begin, before)
            if before is not None and _is_same(before, found):
                return before
            load = load_id_of(run_id, load)
            self.baseline(load)
            plan = plans.pin(
                self.ledger,
                kafka,
                lambda _, found=found: found,  # type: ignore[misc]
                run_id=load,
                topic=topic,
                params=params,
                defaults=FORM,
                heads=heads,
            )
            # Else another attempt of the task pinned it meanwhile, when there were other files.
            if _is_same(plan, found):
                return plan
        raise Unreachable(
            f"the files {params['pattern']} of run {run_id!r} changed at each of {ATTEMPTS} attempts to plan "
            "them. Fix: wait until they are uploaded, and clear the produce task",
            ErrorCode.SYSTEM_UNREACHABLE,
        )

    def find(self, begin: datetime, before: Document | None) -> NewSources:
        """The current versions of the interval's objects that no load verified, without corrected files.

        ``more``: ``corrected``, those of which an older version was planned and not taken out by a change,
        so its rows may be in the table; ``known``, the source ids seen per key, also those of ``before``,
        the run's earlier plan.
        """
        pattern = self.backfill.keys(begin)
        current: dict[str, ObjectVersion] = {}
        known: dict[str, set[str]] = defaultdict(set)
        for key, source_ids in (before or {}).get("known", {}).items():
            known[key].update(source_ids)
        for version, is_latest in self.bucket.versions(literal_prefix(pattern)):
            if matches(pattern, version.key):
                known[version.key].add(version.source_id)
                if is_latest:
                    current[version.key] = version
        if not current:
            raise Missing(
                f"s3://{self.bucket.name}/{pattern}: no object of this interval ends in .csv or .csv.gz. "
                f"Fix: upload it, or correct [backfill] pattern; then {again(self.ledger.stream, begin)}",
                ErrorCode.INTERVAL_EMPTY,
            )
        documents = [plans.document_of(current[key]) for key in sorted(current)]
        verified = self.verified()
        new = without_verified(documents, verified)
        not_loaded = {document["source_id"] for document in new}
        corrected = [
            one | {"is_loaded": one["source_id"] not in not_loaded}
            for document in documents
            for one in self._corrected(document, known[document["key"]] - verified.reverted)
        ]
        left_out = {one["source_id"] for one in corrected}
        to_load = [document for document in new if document["source_id"] not in left_out]
        plans.check_headers(self.bucket, [current[document["key"]] for document in to_load])
        more = {
            "corrected": corrected,
            "known": {key: sorted(source_ids) for key, source_ids in sorted(known.items())},
        }
        return NewSources(to_load, new.verified, new.reverted, more)

    def _corrected(self, document: Document, known: set[str]) -> list[Document]:
        # A planned version may have rows on the topic, verified or not.
        for source_id in sorted(known - {document["source_id"]}):
            planned = self.ledger.get(planned_key(source_id))
            if planned is not None:
                keep = {name: document[name] for name in ("source_id", "bucket", "key", "version_id")}
                return [{**keep, "loaded": source_id, "loaded_version_id": planned.get("version_id")}]
        return []


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


def _is_same(plan: Document, found: NewSources) -> bool:
    """Whether the plan has the same files to load, and leaves out the same."""
    return (
        _ids(plan["sources"]) == _ids(found)
        and plan["corrected"] == found.more["corrected"]
        and plan["reverted"] == found.reverted
    )


def _ids(documents: list[Document]) -> set[str]:
    return {document["source_id"] for document in documents}
