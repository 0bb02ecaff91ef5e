"""Emit an asset's events while a stream publishes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from sluice.airflow.triggers.base import StreamTrigger
from sluice.config.reading.toml import ConfigError
from sluice.core.errors import ClientError
from sluice.supervision.rules.publications import Announced, since

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients
    from sluice.core.tables.position import Position

POLL_SECONDS = 5.0
# Key in the asset's state store.
STATE = "announced"


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedEventTrigger(StreamTrigger, BaseEventTrigger):
    """Fires when ``main`` has new offsets, at most once in ``every`` seconds, while a DAG waits for them.

    The first time it only records where the stream is. What it announced it records a poll later, when
    Airflow has stored the event: a triggerer that ends before that announces the same offsets again, and
    loses none. Two questions to PostgreSQL per poll, and none before an event may be due again; S3 is read
    after a commit, and asked once a minute which tables the ledger knows.
    """

    every: float

    def __post_init__(self) -> None:
        super().__post_init__()
        # Not the component's: what hangs here is not to stop its supervision.
        self.requests.owner = f"{self.stream} published"

    async def run(self) -> AsyncIterator[TriggerEvent]:
        store = self.asset_state_store
        if store is None:
            raise RuntimeError(f"the watcher of {self.stream} has no asset: Airflow gave it no state store")
        known: Announced | None = None
        recorded: Announced | None = None
        failure = ""
        while True:
            pause = POLL_SECONDS
            try:
                if known is None:
                    found = await store.aget(STATE)
                    known = recorded = Announced.from_json(found) if isinstance(found, dict) else None
                if known is not None and known is not recorded:
                    await store.aset(STATE, known.to_json())
                    recorded = known
                payload = None
                if (left := self._seconds_left(known)) > 0:
                    pause = max(left, POLL_SECONDS)
                elif (position := await self._position()) is not None:
                    payload, known = self._next(known, position)
                failure = ""
                if payload is not None:
                    yield TriggerEvent(payload)
            except (ClientError, ConfigError, AirflowRuntimeError) as error:
                # A watcher that ended is not restarted, so it waits for the system.
                if str(error) != failure:
                    self.log.warning("publications of %s are not known: %s", self.stream, error)
                failure = str(error)
            await self.sleep(pause)

    async def _position(self) -> Position | None:
        table = self.spec.table

        def position(clients: StreamClients) -> Position | None:
            clients.tables.check(table)
            return clients.platform_hook.lake.position(table)

        return await self.ask(position)

    def _seconds_left(self, known: Announced | None) -> float:
        """Until an event may be due. A time to come is of a clock that was ahead, and holds up nothing."""
        passed = self.clock() - known.at if known else self.every
        return self.every - passed if 0 <= passed < self.every else 0.0

    def _next(self, known: Announced | None, position: Position) -> tuple[dict[str, Any] | None, Announced]:
        """The payload of an event, and what is announced then."""
        if known is None:
            return None, Announced.of(position)
        publication = since(known, position)
        if publication.restored:
            self.log.warning("%s: %s", self.stream, publication.restored)
            return None, Announced.of(position, known.at)
        if not publication.new:
            return None, known
        payload = {
            "stream": self.stream,
            "table": self.spec.table,
            "records": publication.new.count,
            # One range of each partition: first offset, and the one behind the last.
            "ranges": {str(p): list(new.pairs()[0]) for p, new in publication.new.partitions.items() if new},
            "topic_id": position.topic_id,
            "epoch": position.epoch,
            "at": position.at,
        }
        return payload, Announced.of(position, self.clock())
