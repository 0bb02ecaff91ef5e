"""The observer's process: observes all streams and serves what it knows.

``GET /streams/``: a brief document of each component of all streams. ``GET /streams/<stream>``: each
component's document. ``GET /streams/<stream>/<component>``: its samples,
oldest first. Both with the time of the answer, so that a reader knows how old they are by one clock.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from sluice.clients.s3.requests import QUICK
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.ledger.keys import history_name
from sluice.supervision.observer import documents
from sluice.supervision.observer.component import Clients
from sluice.supervision.observer.live import Live
from sluice.supervision.observer.streams import StreamObserver
from sluice.supervision.serving import JSON, TokenHandler, TokenServer, new_parser, prepare_process
from sluice.systems import Systems

log = logging.getLogger(__name__)

ROLE = "observer"
PATH = "/streams/"


def open_clients() -> Clients:
    """One thread's clients. Raises ConfigError, ClientError."""
    systems = Systems(ROLE, QUICK)
    return Clients(
        systems.kafka,
        lambda spec: systems.tables(spec.name),
        systems.runtime,
        lambda spec, component: systems.history(history_name(spec.name, component)),
        lambda spec, limit: [one.batch for one in systems.batch_log(spec.table).newest(limit)],
    )


class Server(TokenServer):
    """Serves what ``observer`` knows of the ``declared`` streams."""

    def __init__(
        self,
        address: tuple[str, int],
        token: str,
        observer: StreamObserver,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.observer, self.clock = observer, clock
        # What is known of each component, and its brief document.
        self._briefs: dict[tuple[str, str], tuple[Live, str]] = {}
        super().__init__(address, token, _Handler)

    def briefs(self) -> str:
        """The brief documents of all components, as JSON by stream and component. Each is made once for an
        observation: it looks through the points of hours."""
        kept: dict[tuple[str, str], tuple[Live, str]] = {}
        streams = []
        for stream, lives in self.observer.all_lives().items():
            for name, live in lives.items():
                known = self._briefs.get((stream, name))
                if known is None or known[0] is not live:
                    known = live, json.dumps(documents.dump(live.brief()))
                kept[stream, name] = known
            components = ", ".join(f"{json.dumps(name)}: {kept[stream, name][1]}" for name in lives)
            streams.append(f"{json.dumps(stream)}: {{{components}}}")
        self._briefs = kept
        return f"{{{', '.join(streams)}}}"


class _Handler(TokenHandler):
    server: Server

    def get(self) -> None:
        path, _, name = self.path.partition(PATH)
        stream, _, component = name.partition("/")
        if path or (component and not stream):
            self.answer(404)
        elif self.is_allowed():
            if not stream:
                text = f'{{"at": {self.server.clock()}, "streams": {self.server.briefs()}}}'
                self.answer(200, text.encode(), JSON)
            else:
                self._answer(self._component(stream, component) if component else self._stream(stream))

    def _answer(self, found: Any) -> None:
        if found is None:
            self.answer(404)
        else:
            self.answer(200, json.dumps({"at": self.server.clock(), **found}).encode(), JSON)

    def _stream(self, stream: str) -> dict[str, Any] | None:
        lives = self.server.observer.lives(stream)
        return {"components": {name: documents.dump(live) for name, live in lives.items()}} if lives else None

    def _component(self, stream: str, component: str) -> dict[str, Any] | None:
        found = self.server.observer.samples(stream, component)
        if found is None:
            return None
        spec, samples = found
        return {
            "subject": documents.subject(spec, component),
            "samples": documents.dump_samples(samples),
        }

    def is_healthy(self) -> bool:
        return self.server.observer.is_working()


def main(arguments: list[str]) -> int:
    parser = new_parser("sluice.supervision.observer.server", __doc__)
    given = parser.parse_args(arguments)
    prepare_process()
    access = platforms.load(ROLE).observer
    if access is None:
        raise ConfigError(
            f"the platform file of role {ROLE!r} has no [observer]. Fix: add it, with url and token"
        )
    observer = StreamObserver(
        lambda: streams.load_valid().specs, open_clients, stamp=lambda: platforms.stamp(ROLE)
    )
    server = Server((given.host, given.port), access.token, observer)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    log.info("observing; serving host=%s port=%d", given.host, given.port)
    observer.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
