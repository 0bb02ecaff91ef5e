"""Documents of a stream's batch log that nothing can need any more: what they say of offsets is rolled up,
and then they are deleted.

A document goes if all of its batches are older than the horizon, by the records of maintenance and by S3's
clock, were verified by a reconciliation, and have no snapshot in a state to which the catalog may be
restored. Whatever is not known to be so stays, and is counted. The newest document before the horizon stays
too, of a stream that stands still: the writer that comes next compares ``main`` with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from sluice.clients.s3.documents import put_document
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused
from sluice.core.json_record import Document
from sluice.core.tables.batches import time_of
from sluice.core.tables.file_removal import SLACK, ClockChanged, needed_records, path_of
from sluice.core.tables.storage import documents_place
from sluice.core.tables.without_record import FOLDER as WITHOUT_RECORD
from sluice.ledger import rolled_up
from sluice.ledger.batch_log import rolled_up_key
from sluice.ledger.keys import VERIFIED_TABLE
from sluice.ledger.rolled_up import RolledUp
from sluice.maintenance.batch_portions import Portion, Portions
from sluice.maintenance.expired_batches import Limits
from sluice.maintenance.horizon import MAX_SECONDS, base_of, days_of, longest_gap

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.ledger.batches import BatchLog
    from sluice.systems import Systems

log = logging.getLogger(__name__)


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
        number, known = rolled_up.newest(batch_log.documents, batch_log.table_uuid)
        # The newest of an earlier run stays: it may have been listed, and not been read yet.
        older = rolled_up.older(batch_log.documents, number, batch_log.table_uuid)
        portions = Portions(batch_log, limits, known, time.monotonic() + MAX_SECONDS)
        removed, denied = 0, ""
        for portion in portions:
            try:
                number = self._write(batch_log, number, known, portion.known)
                self._delete(batch_log, portion, older)
            except (ClientError, ConfigError) as error:
                # A role of before this step has no right to: its documents take space, and nothing else.
                if isinstance(error, ClientError) and error.code is not ErrorCode.S3_PERMISSION:
                    raise
                log.warning("documents of batches were not removed: %s", error)
                denied = str(error)
                break
            known, older = portion.known, []
            removed += len(portion.keys)
            log.info("%s: %d documents of batches removed so far", self.spec.table, removed)
        notes = [f"documents of batches, which nothing needs, stay: {denied}"] if denied else []
        if notes and not removed:
            return {**_nothing(denied), "notes": notes}
        more = "" if portions.is_all else f"; more are left after {MAX_SECONDS} s, and the next run goes on"
        stay = ", ".join(f"{count} ({why})" for why, count in sorted(portions.kept.items())) or "none"
        before = f"{limits.before:%Y-%m-%d %H:%M} UTC"
        result = f"{removed} documents of batches before {before} removed{more}; older ones that stay: {stay}"
        log.info("%s: %s", self.spec.table, result)
        said = {"result": result, "removed": removed, "kept": dict(portions.kept)}
        return {**said, **({"notes": notes} if notes else {})}

    def _limits(self, batch_log: BatchLog, now: datetime) -> Limits | str:
        """Or why there are none. Raises ClockChanged."""
        maintenance, name, table = self.spec.maintenance, self.spec.table, batch_log.table
        base = base_of(self._history, maintenance, self.days, now)
        restore, gap = timedelta(days=maintenance.restore_horizon_days), longest_gap(maintenance)
        restorable = needed_records(self._history.metadata(), now, restore, gap)
        if base is None or not restorable:
            return f"the records of maintenance do not cover {self.days} days"
        state = self._history.latest(VERIFIED_TABLE)
        if state is None or state["table_uuid"] != batch_log.table_uuid:
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

    def _write(self, batch_log: BatchLog, number: int, before: RolledUp, known: RolledUp) -> int:
        """Write what stays known, if it is more than before, and read it back; return its number."""
        if known == before:
            return number
        documents, key = batch_log.documents, rolled_up_key(number + 1)
        document = known.to_document(batch_log.table_uuid)
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


def _nothing(why: str) -> Document:
    return {"result": f"nothing removed: {why}", "removed": 0, "kept": {}}
