"""Documents of a stream's batch log that nothing can need any more: what they say of offsets is rolled up,
and then they are deleted.

A document goes if all of its batches are older than the horizon, by the records of maintenance and by S3's
clock, were verified by a reconciliation, and have no snapshot in a state to which the catalog may be
restored. Whatever is not known to be so stays, and is counted. The newest document before the horizon stays
too, of a stream that stands still: the writer that comes next compares ``main`` with it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, groupby
from typing import TYPE_CHECKING

from sluice.clients.s3.documents import put_document
from sluice.clients.s3.requests import at_once, read_change
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused
from sluice.core.json_record import Document
from sluice.core.tables.batches import Batch, time_of
from sluice.core.tables.file_removal import SLACK, ClockChanged, needed_records, path_of
from sluice.core.tables.storage import documents_place
from sluice.core.tables.without_record import FOLDER as WITHOUT_RECORD
from sluice.ledger import rolled_up
from sluice.ledger.batch_log import PUBLISHED, batches_in, published_until, rolled_up_key, span_of
from sluice.ledger.keys import VERIFIED_TABLE
from sluice.ledger.rolled_up import RolledUp
from sluice.maintenance.expired_batches import NEWEST, UNKNOWN_KEY, UNREADABLE, Limits, why_kept
from sluice.maintenance.horizon import base_of, days_of, longest_gap

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.ledger.batches import BatchLog
    from sluice.systems import Systems

log = logging.getLogger(__name__)

# Documents of a run: a stream that publishes every 5 s writes 1,728 a day. The next run goes on.
MAX_DOCUMENTS = 10_000
# Documents that are in memory at once.
CHUNK = 500
_KEY_OF_BEGIN = len(published_until(time_of(0)))

Stored = tuple[str, datetime]


@dataclass
class Portion:
    """Documents that go."""

    known: RolledUp
    """What stays known of them, and of earlier ones."""
    keys: list[str] = field(default_factory=list)
    """Theirs, in the batch log."""
    named: dict[str, None] = field(default_factory=dict)
    """Addresses of other documents that they name."""
    kept: Counter[str] = field(default_factory=Counter)
    """How many others stay, by why."""
    is_all: bool = True
    """False: more were not looked at."""


class BatchHistory:
    """The batch log of a stream's table. ``fewest_days``: for so long Airflow keeps runs, to be cleared."""

    def __init__(self, systems: Systems, spec: StreamSpec, fewest_days: int = 0) -> None:
        self.spec, self._systems = spec, systems
        self._history = systems.history(spec.name)
        self.days = days_of(spec.maintenance, fewest_days)

    def remove(self, now: datetime) -> Document:
        """As if it was ``now``. Returns ``result``, for people; the numbers of ``removed`` and ``kept``; and
        ``notes``, if role ``maintenance`` may not. Raises Refused or Unreachable; the next run goes on."""
        if self._systems.lake.location(self.spec.table) is None:
            return _nothing("the catalog does not have the table")
        batch_log = self._systems.batch_log(self.spec.table)
        try:
            limits = self._limits(batch_log, now)
        except ClockChanged as error:
            return _nothing(str(error))
        if isinstance(limits, str):
            return _nothing(limits)
        number, known = rolled_up.newest(batch_log.documents)
        portion = self._portion(batch_log, limits, known)
        try:
            newest = self._write(batch_log, number, known, portion.known)
            # The one before the newest stays for a run: it may have been listed, and not been read yet.
            self._delete(batch_log, portion, rolled_up.older(batch_log.documents, newest - 1))
        except (ClientError, ConfigError) as error:
            # A role of before this step has no right to: its documents take space, and nothing else.
            if isinstance(error, ClientError) and error.code is not ErrorCode.S3_PERMISSION:
                raise
            log.warning("documents of batches were not removed: %s", error)
            note = f"documents of batches, which nothing needs, stay: {error}"
            return {**_nothing(str(error)), "notes": [note]}
        more = "" if portion.is_all else f"; there are more than {MAX_DOCUMENTS}, and the next run goes on"
        stay = ", ".join(f"{count} ({why})" for why, count in sorted(portion.kept.items())) or "none"
        before = f"{limits.before:%Y-%m-%d %H:%M} UTC"
        result = (
            f"{len(portion.keys)} documents of batches before {before} removed{more}; older ones that stay: "
            f"{stay}"
        )
        log.info("%s: %s", self.spec.table, result)
        return {"result": result, "removed": len(portion.keys), "kept": dict(portion.kept)}

    def _limits(self, batch_log: BatchLog, now: datetime) -> Limits | str:
        """Or why there are none. Raises ClockChanged."""
        maintenance, name, table = self.spec.maintenance, self.spec.table, batch_log.table
        base = base_of(self._history, maintenance, self.days, now)
        restore, gap = timedelta(days=maintenance.restore_horizon_days), longest_gap(maintenance)
        restorable = needed_records(self._history.metadata(), now, restore, gap)
        if base is None or not restorable:
            return f"the records of maintenance do not cover {self.days} days"
        state = self._history.latest(VERIFIED_TABLE)
        if state is None or state["table_uuid"] != str(table.metadata.table_uuid):
            return "no reconciliation has verified the table"
        verified_at = time_of(state["committed_at"])
        locations = {one.tables[name] for one in restorable if name in one.tables}
        place = path_of(documents_place(table.location(), table.properties)).rstrip("/")
        return Limits(
            # Later ones are not listed: a reconciliation that stands still costs nothing here.
            min(base.at, verified_at) - SLACK,
            base.written - SLACK,
            {int(partition): end for partition, end in state["ends"].items()},
            self._snapshots(batch_log, locations),
            batch_log.line,
            f"{place}/{WITHOUT_RECORD}/",
        )

    def _snapshots(self, batch_log: BatchLog, locations: Iterable[str]) -> set[int]:
        """Those of the table as it is, and as of these metadata files, which are read."""
        found = {one.snapshot_id for one in batch_log.table.metadata.snapshots}
        for location in locations:
            try:
                earlier = self._systems.lake.table_at(self.spec.table, location)
            except Refused as error:
                is_by_catalog = self._systems.platform.lake.is_maintained_by_catalog
                if error.code is not ErrorCode.LAKE_FILE_MISSING or not is_by_catalog:
                    raise
                # Who deleted it cannot be restored to it.
                log.info("%s", error)
                continue
            found.update(one.snapshot_id for one in earlier.metadata.snapshots)
        return found

    def _portion(self, batch_log: BatchLog, limits: Limits, known: RolledUp) -> Portion:
        portion = Portion(known)
        groups, count = self._groups(batch_log, limits, portion), 0
        while chunk := list(_up_to(groups, CHUNK)):
            stored = [one for group in chunk for one in group]
            read = dict(zip(stored, at_once(stored, lambda one: _read(batch_log, one[0])), strict=True))
            found = list[Batch]()
            for group in chunk:
                found += self._judge(batch_log, limits, [(one, read[one]) for one in group], portion)
            # At once: each time copies all that is known.
            portion.known = portion.known.more(found)
            count += len(stored)
            if count >= MAX_DOCUMENTS:
                portion.is_all = next(groups, None) is None
                break
        return portion

    def _groups(self, batch_log: BatchLog, limits: Limits, portion: Portion) -> Iterator[list[Stored]]:
        """The documents before the horizon, newest first, behind the newest of ``main``: so those that a
        catalog lost stay for as long after it was restored. Those of one begin are together, since they have
        the same batches."""
        listed = batch_log.documents.written(PUBLISHED, after=published_until(limits.before))
        is_behind = False
        for _, group in groupby(listed, lambda one: one[0][:_KEY_OF_BEGIN]):
            stored = list(group)
            spans = [span for key, _ in stored if (span := span_of(key))]
            if len(spans) < len(stored):
                portion.kept[UNKNOWN_KEY] += len(stored)
            elif is_behind:
                yield stored
            else:
                portion.kept[NEWEST] += len(stored)
                is_behind = any(map(limits.is_behind, spans))

    def _judge(
        self,
        batch_log: BatchLog,
        limits: Limits,
        group: Sequence[tuple[Stored, Sequence[Batch] | None]],
        portion: Portion,
    ) -> list[Batch]:
        """Put the documents of one begin into the portion, all or none; return what is to be known of them:
        the batches of ``main``."""
        found, why = list[Batch](), ""
        for (_, written), batches in group:
            why = why or why_kept(written, batches, limits)
            found += batches or ()
        # Lost ones say nothing of the offsets that were read again.
        of_main = [one for one in found if one.published in limits.line]
        try:
            read = [] if why else [self._with_offsets(batch_log, one, portion.known) for one in of_main]
        except Refused as error:
            if error.code is not ErrorCode.LAKE_FILE_MISSING:
                raise
            log.warning("%s", error)
            why = UNREADABLE
        if why:
            portion.kept[why] += len(group)
            return []
        portion.keys += [key for (key, _), _ in group]
        addresses = (one.without_record.address for one in found)
        portion.named |= dict.fromkeys(address for address in addresses if address)
        return [one for one in read if one is not None]

    def _with_offsets(self, batch_log: BatchLog, batch: Batch, known: RolledUp) -> Batch | None:
        """The batch with its offsets without a record; None if they are known, and their document may be gone
        already."""
        if not batch.without_record.address:
            return batch
        if known.has(batch.ranges):
            return None
        client = batch_log.documents.client
        read = batch.without_record.read(lambda one: read_change(client, one, "offsets without a record"))
        return replace(batch, without_record=read)

    def _write(self, batch_log: BatchLog, number: int, before: RolledUp, known: RolledUp) -> int:
        """Write what stays known, if it is more than before, and read it back; return its number."""
        if known == before:
            return number
        documents, key, document = batch_log.documents, rolled_up_key(number + 1), known.to_document()
        what = f"batch log document {documents.uri(key)}"
        client = self._systems.as_maintenance()
        put_document(client, documents.bucket, f"{documents.prefix}/{key}", document, what)
        if documents.get(key) != document:
            raise Refused(
                f"{what} is not as it was written, so nothing was deleted: another run wrote it. Fix: let "
                "one run of maintenance end before the next one",
            )
        return number + 1

    def _delete(self, batch_log: BatchLog, portion: Portion, older: Sequence[str]) -> None:
        documents = batch_log.documents
        # First what the documents name: without them nothing does.
        named = (path_of(one).partition("/")[2] for one in portion.named)
        keys = (f"{documents.prefix}/{key}" for key in (*portion.keys, *older))
        if portion.keys or older:
            self._systems.remove_objects(documents.bucket, chain(named, keys))


def _read(batch_log: BatchLog, key: str) -> Sequence[Batch] | None:
    document = batch_log.documents.get(key)
    try:
        return batches_in(document) if document else None
    except (KeyError, TypeError, ValueError, AttributeError):
        log.warning("%s is no document of batches", batch_log.documents.uri(key), exc_info=True)
        return None


def _up_to(groups: Iterator[list[Stored]], count: int) -> Iterator[list[Stored]]:
    """Groups of so many documents, or a few more."""
    found = 0
    while found < count and (group := next(groups, None)):
        yield group
        found += len(group)


def _nothing(why: str) -> Document:
    return {"result": f"nothing removed: {why}", "removed": 0, "kept": {}}
