"""Write-once documents, and a stream's history in them.

The ledger: what a load was, as small JSON objects that are written once.

Every put carries ``If-None-Match: *``, so of two writers the first wins and both go on with its
document. Keys are in :mod:`sluice.model.spec.ledger`.

What happened to a stream, kept in the ledger: one small object per event, written once, ordered by time.

Kinds: ``health``, ``restart``, ``start``, ``stop``, ``suspend``, ``resume``, ``question``, ``answer``,
``recovered``, ``missed``. The moment is in the key, so looking for the newest needs no GET but its own.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError as S3Error

from sluice.clients.errors import Missing, Unreachable
from sluice.clients.s3 import asking, error_code, split
from sluice.model.error_codes import ErrorCode
from sluice.model.health.status import RestartHistory
from sluice.model.spec.ledger import RUNTIME, Document, history_key, history_prefix, moment, moment_of
from sluice.model.spec.stream import Supervision

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5


class Ledger:
    """One stream's documents."""

    def __init__(
        self, client: S3Client, uri: str, stream: str, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.client = client
        self._sleep = sleep
        self.bucket, prefix = split(uri)
        self.prefix = f"{prefix}/{stream}" if prefix else stream

    def uri(self, key: str) -> str:
        """The address of a document, for messages and for a job's arguments."""
        return f"s3://{self.bucket}/{self.prefix}/{key}"

    def get(self, key: str) -> Document | None:
        """The document, or None where there is none."""
        try:
            with asking(f"ledger document {self.uri(key)}"):
                body = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")["Body"].read()
        except Missing:
            return None
        document: Document = json.loads(body)
        return document

    def put(self, key: str, document: Document) -> Document:
        """Write the document if there is none; return the one that is there afterwards, perhaps another's."""
        body = json.dumps(document, indent=1, sort_keys=True).encode()
        for attempt in range(ATTEMPTS):
            try:
                with asking(f"ledger document {self.uri(key)}"):
                    self._put_if_absent(key, body)
            except FileExistsError:
                winner = self.get(key)
                if winner is not None:
                    return winner
                # The other put is not visible yet (S3's 409) or failed: ask again.
                self._sleep(0.2 * 2**attempt)
            else:
                return document
        raise Unreachable(
            f"ledger document {self.uri(key)}: {ATTEMPTS} conditional puts met another writer's",
            ErrorCode.S3_UNREACHABLE,
        )

    def _put_if_absent(self, key: str, body: bytes) -> None:
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{self.prefix}/{key}",
                Body=body,
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except S3Error as error:
            if error_code(error) in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409"):
                raise FileExistsError(key) from error
            raise


# How far back the newest event is looked for, step by step: a verdict may change with every run, or not for a
# year. The usual case costs one LIST of few keys.
RECENT = (timedelta(hours=1), timedelta(days=1), timedelta(days=30), None)


def _now() -> datetime:
    return datetime.now(UTC)


class History:
    """One stream's events. Moments are aware datetimes; errors are the ledger's (Refused, Unreachable)."""

    def __init__(
        self,
        client: S3Client,
        ledger_uri: str,
        stream: str,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.ledger = Ledger(client, ledger_uri, stream)
        self.stream = stream
        self._clock = clock

    def record(self, kind: str, document: Document, at: datetime) -> Document:
        """Keep the event, with ``kind``, ``at`` (ISO 8601, UTC) and ``stream`` added; returns it as kept.

        The key is made of the event, so that recording the same again, after an answer that was lost, keeps
        one.
        """
        event = {**document, "kind": kind, "at": at.astimezone(UTC).isoformat(), "stream": self.stream}
        text = json.dumps(event, sort_keys=True)
        suffix = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.ledger.put(history_key(kind, at, suffix), event)

    def since(self, kind: str, at: datetime) -> list[Document]:
        """The events of a kind from ``at`` on, oldest first. A GET each: for windows with few of them."""
        events = (self.ledger.get(key) for key in self._keys(kind, at))
        return [event for event in events if event is not None]

    def latest(self, kind: str) -> Document | None:
        """The newest event of a kind, None where there is none."""
        for back in RECENT:
            newest = _newest(self._keys(kind, self._clock() - back if back else None))
            if newest:
                return self.ledger.get(newest[0])
        return None

    def suspended(self) -> Document | None:
        """The hold that is in force: the newest ``suspend`` if no ``resume`` came after it."""
        # All of them, in one LIST: there are few in a stream's life, and mostly none.
        suspend, resume = _newest(self._keys("suspend", None)), _newest(self._keys("resume", None))
        # At the same moment the hold wins: not restarting is the safer mistake.
        if suspend is None or (resume is not None and resume[1] > suspend[1]):
            return None
        return self.ledger.get(suspend[0])

    def facts(self, now: datetime, policy: Supervision) -> RestartHistory:
        """What the rules need: the restarts of the policy's window, and the hold in words.

        A restart on request does not count, nor do those before it or before a hold was released: who asked
        has seen them. Two runs that restarted the same instance restarted it once.
        """
        begin = now - timedelta(seconds=policy.restart_window_seconds)
        suspended = self.suspended()
        events = [(datetime.fromisoformat(event["at"]), event) for event in self.since("restart", begin)]
        counted = max(
            [
                begin,
                *(at for at, event in events if event.get("requested")),
                *self._keys("resume", begin).values(),
            ]
        )
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
        )

    def requested_since(self, at: datetime) -> str | None:
        """Kind and moment of the newest act on request after ``at``; None if there was none."""
        acts = [
            (when, kind) for kind in ("suspend", "resume", "start") for when in self._keys(kind, at).values()
        ]
        acts += [
            (datetime.fromisoformat(event["at"]), "restart")
            for event in self.since("restart", at)
            if event.get("requested")
        ]
        when, kind = max(acts, default=(at, ""))
        return f"{kind} at {when.isoformat(timespec='seconds')}" if kind else None

    def _keys(self, kind: str, since: datetime | None) -> dict[str, datetime]:
        """The keys of a kind's events from ``since`` on (None: all) and their moments, oldest first."""
        root = f"{self.ledger.prefix}/"
        prefix = f"{root}{history_prefix(kind)}"
        pages = self.ledger.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.ledger.bucket,
            Prefix=prefix,
            # S3 answers with the keys behind it; an event's key is this and more.
            StartAfter=f"{prefix}{moment(since)}" if since else prefix,
        )
        with asking(f"history {self.ledger.uri(history_prefix(kind))}"):
            keys = [found["Key"].removeprefix(root) for page in pages for found in page.get("Contents", [])]
        moments = {key: moment_of(key) for key in keys}
        return {key: at for key, at in moments.items() if at is not None}


def suspend_message(suspend: Document) -> str:
    """``by <who> since <at>: <why>`` of a hold."""
    reason = suspend.get("reason") or "no reason given"
    return f"by {suspend.get('who', 'an unknown user')} since {suspend['at']}: {reason}"


def _newest(keys: dict[str, datetime]) -> tuple[str, datetime] | None:
    return max(keys.items(), default=None)
