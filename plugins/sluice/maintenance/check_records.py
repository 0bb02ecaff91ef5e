"""Records that checks of a stream left in its ledger, of which nothing reads old ones.

A check reads the newest record of its kind, or those of some hours. So of each kind the newest record stays
that is older than the horizon, with all newer ones; and those that Airflow's Variables name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError
from sluice.core.json_record import Document
from sluice.core.tables.file_removal import SLACK, ClockChanged
from sluice.ledger.keys import OF_CHECKS, countdown, history_prefix, moment_of
from sluice.maintenance.horizon import MAX_SECONDS, base_of, days_of

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.ledger.history import RecordTime
    from sluice.systems import Systems

log = logging.getLogger(__name__)

# Records that are deleted at once.
PORTION = 1000


class CheckRecords:
    """``marked``: keys that the ledger must have; ``fewest_days``: as of :func:`days_of`."""

    def __init__(
        self, systems: Systems, spec: StreamSpec, marked: Collection[str] = (), fewest_days: int = 0
    ) -> None:
        self.spec, self._systems, self._marked = spec, systems, marked
        self._history = systems.history(spec.name)
        self.days = days_of(spec.maintenance, fewest_days)

    def remove(self, now: datetime) -> Document:
        """As if it was ``now``. Returns ``result``, for people, the number of ``removed``, and ``notes``, if
        role ``maintenance`` may not. Raises Refused or Unreachable; the next run goes on."""
        try:
            base = base_of(self._history, self.spec.maintenance, self.days, now)
        except ClockChanged as error:
            return _nothing(str(error))
        if base is None:
            return _nothing(f"the records of maintenance do not cover {self.days} days")
        removed, until = 0, time.monotonic() + MAX_SECONDS
        keys = (key for kind in OF_CHECKS for key in self._old(kind, base))
        history, more = self._history, ""
        # Each portion is listed while those before it are gone already.
        while portion := list(islice(keys, PORTION)):
            if time.monotonic() >= until:
                more = f"; more are left after {MAX_SECONDS} s, and the next run goes on"
                break
            try:
                self._systems.remove_objects(history.bucket, [f"{history.prefix}/{key}" for key in portion])
            except (ClientError, ConfigError) as error:
                if isinstance(error, ClientError) and error.code is not ErrorCode.S3_PERMISSION:
                    raise
                log.warning("records of checks were not removed: %s", error)
                note = f"records of checks, which nothing needs, stay: {error}"
                return {**_nothing(str(error)), "removed": removed, "notes": [note]}
            removed += len(portion)
        result = f"{removed} records of checks older than {self.days} days removed{more}"
        log.info("%s: %s", self.spec.name, result)
        return {"result": result, "removed": removed}

    def _old(self, kind: str, base: RecordTime) -> Iterator[str]:
        """Keys of a kind that may go, newest first."""
        behind = f"{history_prefix(kind)}{countdown(base.at - SLACK)}"
        listed = self._history.written(history_prefix(kind), after=behind)
        # Another key is no record.
        records = ((key, written) for key, written in listed if moment_of(key))
        # The first one is the newest before the horizon.
        for key, written in islice(records, 1, None):
            if written < base.written - SLACK and key not in self._marked:
                yield key


def _nothing(why: str) -> Document:
    return {"result": f"nothing removed: {why}", "removed": 0}
