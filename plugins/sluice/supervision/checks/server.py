"""Serves when each component was checked last, for Prometheus: a process that needs neither Airflow nor its
database, so that their end shows as a metric that grows old.

Supervision posts each check; a file keeps the last ones over a restart.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from prometheus_client import CONTENT_TYPE_LATEST

from sluice.config import folders, streams
from sluice.config import platform as platforms
from sluice.config.reading.files import write_private
from sluice.config.sections.supervision import Supervision
from sluice.config.stream import CONSUMER
from sluice.core.exposition import exposition
from sluice.supervision.checks.check import Check, CheckMetrics, Checks
from sluice.supervision.checks.report import PATH
from sluice.supervision.serving import TokenHandler, TokenServer, new_parser, prepare_process

log = logging.getLogger(__name__)

MAX_BODY = 4096


def expected(at: float) -> list[Check]:
    """A check that ended at this time for each component that is declared: of one that is never checked the
    metric has to grow old too. An invalid stream is expected to be checked as soon as any."""
    declared = streams.load_valid()
    policies = [
        (spec.name, component, spec.supervision) for spec in declared.specs for component in spec.components
    ]
    policies += [(name, CONSUMER, Supervision()) for name in declared.invalid]
    return [Check(name, component, at, policy.max_check_age_seconds) for name, component, policy in policies]


class Store:
    """The last checks, in memory and in a file. Thread-safe. Their times are of ``clock``: one of the
    senders' may be ahead."""

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        self._file, self._clock, self._lock = file, clock, Lock()
        self._checks = self._read()
        with self._lock:
            self._expect(expected(clock()))

    def add(self, check: Check) -> None:
        with self._lock:
            self._checks.add(replace(check, at=self._clock()))
            self._write()

    def metrics(self) -> bytes:
        """Return the metrics of declared streams: a removed one is checked no more. But while a folder of
        streams cannot be read, none counts as removed."""
        # Before the lock, for which checks wait: each declaration is read.
        checks = expected(self._clock())
        declared = None if folders.find().problems else set(streams.names())
        with self._lock:
            self._expect(checks)
            found = self._checks.of(declared)
        return exposition(CheckMetrics(found))

    def _expect(self, checks: Sequence[Check]) -> None:
        if self._checks.expect(checks):
            self._write()

    def _write(self) -> None:
        write_private(self._file, self._checks.dump())

    def _read(self) -> Checks:
        try:
            return Checks.parse(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Checks()
        except (OSError, ValueError) as error:
            # Each component has the time until its next check, as if this process began.
            log.warning("%s cannot be read: %s", self._file, error)
            return Checks()


class Server(TokenServer):
    """``GET /metrics`` and ``POST /checks`` with the token."""

    def __init__(
        self, address: tuple[str, int], token: str, file: Path, clock: Callable[[], float] = time.time
    ) -> None:
        self.store = Store(file, clock)
        super().__init__(address, token, _Handler)


class _Handler(TokenHandler):
    server: Server

    def get(self) -> None:
        if self.path != "/metrics":
            self.answer(404)
        elif self.is_allowed():
            self.answer(200, self.server.store.metrics(), CONTENT_TYPE_LATEST)

    def do_POST(self) -> None:  # noqa: N802
        length = self.headers.get("Content-Length", "")
        if self.path != PATH:
            self.answer(404)
        elif not length.isdecimal() or int(length) > MAX_BODY:
            self.answer(413)
        elif self.is_allowed():
            self._add(self.rfile.read(int(length)))

    def _add(self, body: bytes) -> None:
        try:
            check = Check.parse(json.loads(body))
        except ValueError as error:
            log.warning("refused: %s", error)
            self.answer(400)
            return
        self.server.store.add(check)
        self.answer(204)


def main(arguments: list[str]) -> int:
    parser = new_parser("sluice.supervision.checks.server", __doc__)
    parser.add_argument("--file", type=Path, required=True, help="keeps the last checks over a restart")
    given = parser.parse_args(arguments)
    prepare_process()
    server = Server((given.host, given.port), platforms.load_metrics().token, given.file)
    log.info("serving host=%s port=%d", given.host, given.port)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
