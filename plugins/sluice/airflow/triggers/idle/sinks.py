"""Look whether the sinks of a stream's queries are as declared."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow import connections, sinks
from sluice.airflow.triggers.idle.base import IdleTrigger, WorkNeeded
from sluice.ledger.keys import EXPORTED, history_name
from sluice.notify.telling import is_told

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients
    from sluice.config.connection import Database
    from sluice.ledger.history import History

# On a cluster a worker exports an unchanged connection again after this time.
EXPORT_VALID = timedelta(hours=12)


@dataclass
class Exports:
    """What a worker has exported into a Secret, for the triggerer, whose account may not read it: which text
    it saw when, and whether a worker's record is newer. It forgets with its process."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    seen: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)

    def is_done(self, name: str, text: str, exported: datetime | None, now: datetime) -> bool:
        """Whether ``text``, of the connection ``name``, was exported. ``exported``: when a worker did."""
        digest = hmac.digest(self.key, text.encode(), hashlib.sha256)
        known, since = self.seen.get(name, (b"", now))
        if known != digest or now - since > EXPORT_VALID:
            self.seen[name] = (digest, now)
            return False
        return exported is not None and exported > since


EXPORTS = Exports()


@dataclass(kw_only=True, eq=False, repr=False)
class SinksTrigger(IdleTrigger):
    """Ends its task if every sink is as declared, and no one waits to hear that it is again. ``about``: the
    name under which a failure was told."""

    about: str

    @property
    def sender(self) -> str:
        return f"{self.stream} {self.about}"

    def look(self, clients: StreamClients) -> dict[str, Any]:
        history = clients.platform_hook.history(history_name(self.stream, self.about))
        is_on_cluster = clients.platform_hook.platform.kubernetes is not None

        def is_exported(connection: str, database: Database) -> bool:
            if is_on_cluster:
                return self._is_exported(connection, database, history)
            return connections.is_exported(connection, database)

        try:
            lines = sinks.check(clients.platform_hook, clients.spec, is_exported)
        except sinks.NotAsDeclared as error:
            raise WorkNeeded(str(error)) from error
        if is_told(history, self.stream):
            raise WorkNeeded("a person was told that it failed, and is told that it succeeds again")
        return {"sinks": lines}

    def _is_exported(self, connection: str, database: Database, history: History) -> bool:
        newest = history.newest_keys(EXPORTED, 1)
        at = newest[0][1] if newest else None
        name, now = f"{self.stream} {connection}", datetime.fromtimestamp(self.clock(), UTC)
        return EXPORTS.is_done(name, database.dump(), at, now)
