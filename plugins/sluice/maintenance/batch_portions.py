"""Documents of a stream's batch log that may go, read by few at a time, and what stays known of them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, groupby
from typing import TYPE_CHECKING

from sluice.clients.s3.requests import S3_REQUESTS, at_once, read_change
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.tables.batches import Batch, time_of
from sluice.ledger.batch_log import PUBLISHED, batches_in, published_until, span_of
from sluice.ledger.rolled_up import RolledUp
from sluice.maintenance.expired_batches import LOST, NEWEST, UNKNOWN_KEY, UNREADABLE, Limits, why_kept

if TYPE_CHECKING:
    from sluice.ledger.batches import BatchLog

log = logging.getLogger(__name__)

# Documents that go together, after what stays known of them was written: a run that is killed has done those
# before.
PORTION = 1000
# Documents that are in memory at once: one of ten batches of 1,000 partitions takes 4 MB there.
CHUNK = S3_REQUESTS
# Offsets without a record that are in memory at once, if several batches have them: 160 bytes each.
OFFSETS = 100_000
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


@dataclass
class _Group:
    """The documents of one begin, which have the same batches. All of them go, or none."""

    keys: list[str]
    """Theirs, in the batch log."""
    of_main: list[Batch]
    """Batches that the table has."""
    lost: list[Batch]
    """Batches that a restored catalog lost."""
    is_readable: bool = True
    """False: offsets without a record are gone, and nothing else says which they were."""


class Portions:
    """Those of a batch log, until ``deadline`` by time.monotonic. ``kept``: how many documents stay, by why,
    as far as they were looked at; ``is_all``: False if there are more."""

    def __init__(self, batch_log: BatchLog, limits: Limits, known: RolledUp, deadline: float) -> None:
        """``known``: what is known of documents that are gone."""
        self._log, self._limits, self._known, self._deadline = batch_log, limits, known, deadline
        self.kept, self.is_all = Counter[str](), True

    def __iter__(self) -> Iterator[Portion]:
        """None is empty. Each is to be deleted before the next one is asked for."""
        groups, portion = self._groups(), Portion(self._known)
        while chunk := list(_up_to(groups, CHUNK)):
            self._take(chunk, portion)
            if time.monotonic() >= self._deadline:
                self.is_all = next(groups, None) is None
                break
            if len(portion.keys) >= PORTION:
                yield portion
                portion = Portion(self._known)
        if portion.keys:
            yield portion

    def _groups(self) -> Iterator[list[Stored]]:
        """The documents before the horizon, newest first, behind the newest of ``main``: so those that a
        catalog lost stay for as long after it was restored. Those of one begin are together, since they have
        the same batches."""
        listed = self._log.documents.written(PUBLISHED, after=published_until(self._limits.before))
        is_behind = False
        for _, group in groupby(listed, lambda one: one[0][:_KEY_OF_BEGIN]):
            stored = list(group)
            spans = [span for key, _ in stored if (span := span_of(key))]
            if len(spans) < len(stored):
                self.kept[UNKNOWN_KEY] += len(stored)
            elif is_behind:
                yield stored
            else:
                self.kept[NEWEST] += len(stored)
                is_behind = any(map(self._limits.is_behind, spans))

    def _take(self, chunk: Sequence[Sequence[Stored]], portion: Portion) -> None:
        """Put the documents of each begin into the portion, all or none."""
        stored = list(chain.from_iterable(chunk))
        read = dict(zip(stored, at_once(stored, lambda one: self._read(one[0])), strict=True))
        groups = [group for some in chunk if (group := self._judge([(one, read[one]) for one in some]))]
        self._learn(groups)
        for group in groups:
            # After the others, which may be what came for them.
            if not group.is_readable:
                self.kept[UNREADABLE] += len(group.keys)
            elif not all(self._known.has(one.ranges) for one in group.lost):
                self.kept[LOST] += len(group.keys)
            else:
                portion.keys += group.keys
                addresses = (one.without_record.address for one in (*group.of_main, *group.lost))
                portion.named |= dict.fromkeys(address for address in addresses if address)
        portion.known = self._known

    def _judge(self, documents: Sequence[tuple[Stored, Sequence[Batch] | None]]) -> _Group | None:
        """None if these stay, by what they say."""
        for (_, written), batches in documents:
            if why := why_kept(written, batches, self._limits):
                self.kept[why] += len(documents)
                return None
        found = [one for _, batches in documents for one in batches or ()]
        line = self._limits.line
        return _Group(
            [key for (key, _), _ in documents],
            [one for one in found if one in line],
            [one for one in found if one not in line],
        )

    def _learn(self, groups: Sequence[_Group]) -> None:
        """Add what the batches of ``main`` say. Lost ones say nothing of the offsets that were read again."""
        pairs = [(group, one) for group in groups for one in group.of_main]
        for some in _by_weight(pairs):
            read = at_once(some, lambda pair: self._with_offsets(pair[1]))
            self._known = self._known.more([one for one in read if one is not None])
            for (group, batch), one in zip(some, read, strict=True):
                # A run that was ended may have deleted it after it was known.
                if one is None and not self._known.has(batch.ranges):
                    group.is_readable = False

    def _with_offsets(self, batch: Batch) -> Batch | None:
        """The batch with its offsets without a record; None if their document is gone."""
        client, said = self._log.documents.client, batch.without_record
        try:
            read = said.read(lambda one: read_change(client, one, "offsets without a record"))
        except Refused as error:
            if error.code is not ErrorCode.LAKE_FILE_MISSING:
                raise
            log.warning("%s", error)
            return None
        return replace(batch, without_record=read)

    def _read(self, key: str) -> Sequence[Batch] | None:
        document = self._log.documents.get(key)
        try:
            return batches_in(document) if document else None
        except (KeyError, TypeError, ValueError, AttributeError):
            log.warning("%s is no document of batches", self._log.documents.uri(key), exc_info=True)
            return None


def _up_to(groups: Iterator[list[Stored]], count: int) -> Iterator[list[Stored]]:
    """Groups of so many documents, or a few more."""
    found = 0
    while found < count and (group := next(groups, None)):
        yield group
        found += len(group)


def _by_weight(pairs: Iterable[tuple[_Group, Batch]]) -> Iterator[list[tuple[_Group, Batch]]]:
    """The batches by so many that their offsets without a record fit into memory; one at least."""
    some, weight = list[tuple[_Group, Batch]](), 0
    for pair in pairs:
        count = pair[1].without_record.count
        if some and weight + count > OFFSETS:
            yield some
            some, weight = [], 0
        some.append(pair)
        weight += count
    if some:
        yield some
