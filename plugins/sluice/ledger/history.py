"""The history of a stream's events, and the records that its checks leave for the next ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from sluice.config.sections.supervision import Supervision
from sluice.core.json_record import Document
from sluice.core.processes.restarts import RestartHistory
from sluice.core.tables.file_removal import MetadataRecord
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import (
    MAINTENANCE,
    METADATA,
    RUNTIME,
    history_key,
    history_prefix,
    moment_of,
)


@dataclass(frozen=True)
class RecordTime:
    """``at``: a record's time, by the clock of who wrote it; ``written``: by S3's."""

    at: datetime
    written: datetime


class History(Ledger):
    """A stream's events, one document each; times are aware. ``stream`` is a name of
    :func:`sluice.ledger.keys.history_name`.

    Kinds: ``ledger.EVENTS``. Keys hold the time and the newest sorts first, so the newest event needs one
    LIST and one GET, whatever came before.
    """

    def record(self, kind: str, document: Document, at: datetime) -> Document:
        """Write the event with ``kind``, ``at`` (ISO 8601, UTC) and ``stream`` added, and return it.

        The key contains the event's hash, so a repeated call (after a lost answer) writes nothing.
        """
        event = {**document, "kind": kind, "at": at.astimezone(UTC).isoformat(), "stream": self.stream}
        text = json.dumps(event, sort_keys=True)
        suffix = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.put(history_key(kind, at, suffix), event)

    def since(self, kind: str, at: datetime) -> list[Document]:
        """The events of a kind from ``at`` on, oldest first. A GET each: for windows with few of them."""
        events = (self.get(key) for key in self._since(kind, at))
        return [event for event in events if event is not None]

    def latest(self, kind: str) -> Document | None:
        newest = self._newest(kind)
        return self.get(newest[0]) if newest else None

    def newest_keys(self, kind: str, limit: int) -> list[tuple[str, datetime]]:
        """Key and time of the newest events or records of a kind, newest first: a LIST."""
        found = ((key, moment_of(key)) for key in self.keys(history_prefix(kind), limit=limit))
        return [(key, at) for key, at in found if at is not None]

    def keys_since(self, kind: str, at: datetime) -> list[tuple[str, datetime]]:
        """Key and time of the events or records of a kind after ``at``, newest first."""
        return [(key, when) for key, when in reversed(self._since(kind, at).items()) if when > at]

    def times(self, kind: str, since: datetime) -> list[datetime]:
        """Times of the events of a kind from ``since`` on, oldest first: no GET."""
        return list(self._since(kind, since).values())

    def suspended(self) -> Document | None:
        """The newest ``suspend`` event, unless a ``resume`` came later."""
        suspend = self._newest("suspend")
        resume = self._newest("resume") if suspend else None
        # At the same time the suspension wins: not restarting is safer.
        if suspend is None or (resume is not None and resume[1] > suspend[1]):
            return None
        return self.get(suspend[0])

    def restart_history(self, now: datetime, policy: Supervision) -> RestartHistory:
        """The restarts within the policy's window, the suspension and the newest health.

        Not counted: a restart on request, those before it, and those before the stream was resumed. Two runs
        that restarted the same instance count once.
        """
        begin = now - timedelta(seconds=policy.restart_window_seconds)
        suspended = self.suspended()
        events = [(datetime.fromisoformat(event["at"]), event) for event in self.since("restart", begin)]
        # Each restart or start on request is one of these, and the newest says when, whatever its age.
        resumed = max((at for _, at in self._back_to("resume", begin)), default=None)
        counted = max([begin, resumed or begin, *(at for at, event in events if event.get("requested"))])
        return RestartHistory(
            restarts=sorted(
                {
                    event.get("identity", event["at"]): at.timestamp()
                    for at, event in events
                    if at >= counted and not event.get("requested")
                }.values()
            ),
            suspended=suspend_message(suspended) if suspended else None,
            counted_from=counted.timestamp(),
            runtime_restart_at=max(
                [begin.timestamp(), *(at.timestamp() for at, event in events if event.get("who") == RUNTIME)]
            ),
            requested_at=resumed.timestamp() if resumed else 0.0,
            recorded=self.latest("health"),
        )

    def record_metadata(
        self,
        locations: Mapping[str, str],
        at: datetime,
        run: str,
        uuids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Record the metadata file that the catalog has of each table (name -> address), and the tables'
        UUIDs, by ``run``."""
        document = {"run": run, "tables": dict(locations), "uuids": dict(uuids)}
        document["at"] = at.astimezone(UTC).isoformat()
        self.put(history_key(METADATA, at, "tables"), document)

    def metadata(self) -> Iterator[MetadataRecord]:
        """The records of metadata, newest first; each is read when it is asked for."""
        for key, _ in self._events(METADATA):
            document = self.get(key)
            if document is not None:
                at = datetime.fromisoformat(document["at"])
                yield MetadataRecord(at, document["tables"], document["run"])

    def metadata_times(self) -> Iterator[RecordTime]:
        """When the records of metadata were written, newest first: a LIST for a thousand of them."""
        for key, written in self.written(history_prefix(METADATA)):
            if (at := moment_of(key)) is not None:
                yield RecordTime(at, written)

    def record_maintenance(self, at: datetime, run: str) -> None:
        """Record that ``run`` of maintenance was complete."""
        document = {"at": at.astimezone(UTC).isoformat(), "run": run}
        self.put(history_key(MAINTENANCE, at, "complete"), document)

    def maintained_at(self, now: datetime) -> datetime:
        """When a run of maintenance was complete last; before the first one, when this was asked first."""
        newest = self._newest(MAINTENANCE)
        if newest is None:
            self.record_maintenance(now, "")
            return now
        return newest[1]

    def record_run(self, kind: str, document: Document, at: datetime) -> str:
        """Record what a run did or found, for the next one; returns the key. No event: by a kind of its
        own."""
        key = history_key(kind, at, "run")
        self.put(key, {**document, "at": at.astimezone(UTC).isoformat()})
        return key

    def _newest(self, kind: str) -> tuple[str, datetime] | None:
        """Key and time of the newest event: one request."""
        return next(iter(self.newest_keys(kind, 1)), None)

    def _since(self, kind: str, since: datetime) -> dict[str, datetime]:
        """Key -> time of the events from ``since`` on, oldest first; lists no older ones but a page."""
        found = ((key, at) for key, at in self._back_to(kind, since) if at >= since)
        return dict(sorted(found, key=lambda event: event[1]))

    def _back_to(self, kind: str, since: datetime) -> list[tuple[str, datetime]]:
        """Key and time of the events from ``since`` on, and of the one before them; lists no older ones but a
        page."""
        found = []
        for key, at in self._events(kind):
            found.append((key, at))
            if at < since:
                break
        return found

    def _events(self, kind: str) -> Iterator[tuple[str, datetime]]:
        for key in self.keys(history_prefix(kind)):
            at = moment_of(key)
            if at is not None:
                yield key, at


def suspend_message(suspend: Document) -> str:
    """``by <who> since <at>: <reason>``."""
    reason = suspend.get("reason") or "no reason given"
    return f"by {suspend.get('who', 'an unknown user')} since {suspend['at']}: {reason}"
