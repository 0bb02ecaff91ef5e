"""Positions of one stream that disagree: each a named finding.

What is read is ordered, so that a stream that works meanwhile is no finding. Every position only grows; the
group and the topic's begin stay behind ``main``, and that behind the topic's end. So what is behind is read
first: group and begin, then ``main``, then the topic's end. What is ahead then was ahead before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sluice.core.tables.continuity import covers

Offsets = Mapping[int, int]
# A writer commits the group's offsets after each batch, and once an hour when it is idle.
GROUP_SECONDS = 2 * 3600.0


class FindingName(StrEnum):
    """docs/operating.md has the meaning of each, and what to do."""

    TABLE_LOST = "table-lost"
    TABLE_REPLACED = "table-replaced"
    LEDGER_LOST = "ledger-lost"
    TOPIC_BEHIND_TABLE = "topic-behind-table"
    TOPIC_RECREATED = "topic-recreated"
    RECORDS_DELETED_UNREAD = "records-deleted-unread"
    GROUP_AHEAD = "group-ahead"
    GROUP_BEHIND = "group-behind"
    TABLE_RESTORED = "table-restored"
    TABLE_BEHIND_PROOF = "table-behind-proof"
    MAIN_MOVED = "main-moved"
    FOREIGN_COMMIT = "foreign-commit"
    RANGE_WRONG = "range-wrong"
    OFFSETS_MISSING = "offsets-missing"
    OFFSETS_DUPLICATED = "offsets-duplicated"
    OFFSETS_UNEXPECTED = "offsets-unexpected"
    OFFSETS_IN_BOTH = "offsets-in-both"
    RECORDS_REJECTED = "records-rejected"
    WITHHELD_WAITING = "withheld-waiting"
    METADATA_DAMAGED = "metadata-damaged"
    FILE_DAMAGED = "file-damaged"


@dataclass(frozen=True)
class Finding:
    """``whole``: what the message shows the beginning of, for the log."""

    name: FindingName
    message: str
    whole: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


_NAME = "|".join(FindingName)
_NAMED = re.compile(rf"\b\d+ findings \(((?:{_NAME})(?:, (?:{_NAME}))*)\)")


def named(found: Sequence[Finding]) -> str:
    """Number and names of all findings, for the begin of a message that shows the first few."""
    names = {finding.name for finding in found}
    return f"{len(found)} findings ({', '.join(name for name in FindingName if name in names)})"


def names_in(message: str) -> list[FindingName]:
    """The names of all findings of a message with :func:`named`."""
    match = _NAMED.search(message)
    return [FindingName(name) for name in match[1].split(", ")] if match else []


@dataclass(frozen=True)
class Earlier:
    """What an earlier run read: ``ends`` of ``main``, so many ``seconds`` ago."""

    seconds: float
    ends: Offsets


@dataclass(frozen=True)
class Proof:
    """The newest load that was verified, in the ledger: up to ``ends``, of its partitions."""

    run_id: str
    ends: Offsets


@dataclass(frozen=True)
class Observed:
    """Positions in the order in which they were read; partition -> offset. A partition that a position does
    not have is at 0, or not there yet."""

    group: Offsets
    """The next offsets, as the consumer's group has committed them."""
    broker_begins: Offsets
    """The topic's first offsets."""
    ends: Offsets
    """The offsets up to which the table has everything."""
    table_topic_id: str | None
    """The topic that the table was written from; None if it does not say."""
    topic_id: str
    """As the broker says."""
    broker_ends: Offsets
    """The offsets behind the topic's last records."""
    earlier: tuple[Earlier, ...] = field(default=())
    """Positions of earlier runs."""
    is_suspended: bool = False
    """No process commits the group's offsets then."""
    proof: Proof | None = None
    """It was read before ``ends``."""


def findings(observed: Observed) -> list[Finding]:
    """The positions that disagree."""
    found: list[Finding] = []
    ends = observed.ends
    if observed.table_topic_id not in (None, observed.topic_id):
        message = f"the table was written from topic id {observed.table_topic_id}, it is {observed.topic_id}"
        # The other offsets are of another topic.
        return [Finding(FindingName.TOPIC_RECREATED, message)]

    def compare(name: FindingName, what: str, lower: Offsets, upper: Offsets, than: str) -> None:
        """Find each partition in which ``lower`` is above ``upper``."""
        above = [
            f"partition {partition}: {what} {offset}, {than} {upper.get(partition, 0)}"
            for partition, offset in sorted(lower.items())
            if offset > upper.get(partition, 0)
        ]
        if above:
            found.append(Finding(name, "; ".join(above)))

    compare(
        FindingName.TOPIC_BEHIND_TABLE, "the table ends at", ends, observed.broker_ends, "the topic ends at"
    )
    # Only a partition's begin that a writer has not passed: [ends, begins) is gone.
    unread = {p: begin for p, begin in observed.broker_begins.items() if p in ends}
    compare(
        FindingName.RECORDS_DELETED_UNREAD,
        "the topic begins at",
        unread,
        ends,
        "the table was read before to",
    )
    if observed.proof:
        compare(
            FindingName.TABLE_BEHIND_PROOF,
            f"load {observed.proof.run_id} was verified to",
            observed.proof.ends,
            ends,
            "the table ends at",
        )
    compare(FindingName.GROUP_AHEAD, "the group is at", observed.group, ends, "the table ends at")
    for earlier in observed.earlier:
        if not covers(ends, earlier.ends):
            compare(
                FindingName.TABLE_RESTORED, "an earlier run saw", earlier.ends, ends, "the table ends now at"
            )
            # What was seen then is of no use.
            return found
    old = [earlier for earlier in observed.earlier if earlier.seconds >= GROUP_SECONDS]
    if old and not observed.is_suspended:
        newest = min(old, key=lambda earlier: earlier.seconds)
        compare(
            FindingName.GROUP_BEHIND,
            f"the table ended {newest.seconds / 3600:.1f} hours ago at",
            newest.ends,
            observed.group,
            "the group is at",
        )
    return found
