"""Where a stream begins in a topic of others: its declaration, and the offsets that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sluice.core.error_codes import ErrorCode
from sluice.core.messages import quoted
from sluice.core.offsets.topic_ranges import LARGEST_OFFSET

EARLIEST, LATEST = "earliest", "latest"
# What begins the text of a consumer group's position.
GROUP = "group:"
# Characters of a group's name, by Kafka any; these are all that a message can show.
_GROUP_NAME = re.compile(r"[\x21-\x7e]{1,249}")
_PAIR = re.compile(r"\s*(\d{1,10})\s*=\s*(\d{1,20})\s*,?")
_QUOTED = 60
FORMS = (
    f"{EARLIEST}, {LATEST}, a time with its zone as 2026-06-01T00:00:00Z, an offset for each partition as "
    f'"0=12 1=40", or {GROUP}<name>'
)


class StartKind(StrEnum):
    EARLIEST = EARLIEST
    LATEST = LATEST
    TIME = "time"
    OFFSETS = "offsets"
    GROUP = "group"


class StartInvalid(ValueError):
    """No start, or one that the topic does not have."""

    code = ErrorCode.INVALID_CONFIGURATION


@dataclass(frozen=True)
class Start:
    """A declared start, of which ``kind`` says what counts: ``at`` (aware), ``offsets`` by partition, or the
    name of a ``group``."""

    kind: StartKind
    at: datetime | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    group: str = ""

    @classmethod
    def parse(cls, text: str) -> Start:
        """Raises StartInvalid for another text."""
        given = text.strip()
        if given in (EARLIEST, LATEST):
            return cls(StartKind(given))
        if given.startswith(GROUP):
            return cls._of_group(given.removeprefix(GROUP).strip())
        if "=" in given:
            return cls._of_offsets(given)
        try:
            at = datetime.fromisoformat(given)
        except ValueError:
            raise StartInvalid(f"{quoted(given, _QUOTED)} is no start. Fix: write {FORMS}") from None
        if at.tzinfo is None:
            raise StartInvalid(
                f"{quoted(given, _QUOTED)} has no zone, so it is several moments. Fix: end it with Z, or "
                "with an offset as +02:00"
            )
        return cls(StartKind.TIME, at)

    @classmethod
    def _of_group(cls, name: str) -> Start:
        if not _GROUP_NAME.fullmatch(name):
            raise StartInvalid(f"{quoted(name, _QUOTED)} is no group. Fix: write {GROUP}<its name>")
        return cls(StartKind.GROUP, group=name)

    @classmethod
    def _of_offsets(cls, text: str) -> Start:
        found: dict[int, int] = {}
        place, inner = 0, text.removeprefix("{").removesuffix("}")
        while inner[place:].strip():
            pair = _PAIR.match(inner, place)
            if pair is None or int(pair[2]) > LARGEST_OFFSET:
                raise StartInvalid(
                    f"{quoted(inner[place:].strip(), _QUOTED)} names no offset of a partition. Fix: write "
                    '"0=12 1=40"'
                )
            if int(pair[1]) in found:
                raise StartInvalid(f"partition {int(pair[1])} is named twice. Fix: leave one out")
            found[int(pair[1])] = int(pair[2])
            place = pair.end()
        return cls(StartKind.OFFSETS, offsets=found)

    def offsets_in(self, bounds: Mapping[int, tuple[int, int]], asked: Mapping[int, int]) -> dict[int, int]:
        """Partition -> the first offset that the stream reads.

        ``bounds``: partition -> (first offset kept, next offset to be written). ``asked``: of TIME the first
        offsets at or after it, of GROUP its committed offsets, without partitions that have none: those
        begin with what the topic keeps. Raises StartInvalid for an offset that the topic does not have, for
        a partition that is not named, and for a group without any offset.
        """
        match self.kind:
            case StartKind.EARLIEST:
                return {partition: first for partition, (first, _) in bounds.items()}
            case StartKind.LATEST:
                return {partition: after for partition, (_, after) in bounds.items()}
            case StartKind.TIME:
                return {partition: asked[partition] for partition in bounds}
            case StartKind.OFFSETS:
                return self._declared(bounds)
            case StartKind.GROUP:
                return self._committed(bounds, asked)

    def _declared(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        if unlike := sorted(set(bounds) ^ set(self.offsets)):
            has = "has no such partition" if unlike[0] in self.offsets else "has it, and no offset is named"
            raise StartInvalid(
                f"partition {unlike[0]}: the topic {has}. Fix: name an offset for each of its partitions, "
                f"{min(bounds)} to {max(bounds)}"
            )
        self._check(self.offsets, bounds, "the declared offset", "name one that it has")
        return dict(self.offsets)

    def _committed(self, bounds: Mapping[int, tuple[int, int]], asked: Mapping[int, int]) -> dict[int, int]:
        if not asked:
            raise StartInvalid(
                f"group {self.group!r} has committed no offset of the topic, or they expired. Fix: correct "
                "its name, or declare another start"
            )
        committed = {partition: asked[partition] for partition in bounds if partition in asked}
        what = f"the offset that group {self.group!r} has committed"
        self._check(committed, bounds, what, "declare another start")
        return {partition: committed.get(partition, first) for partition, (first, _) in bounds.items()}

    @staticmethod
    def _check(
        offsets: Mapping[int, int], bounds: Mapping[int, tuple[int, int]], what: str, fix: str
    ) -> None:
        for partition, offset in sorted(offsets.items()):
            first, after = bounds[partition]
            if not first <= offset <= after:
                raise StartInvalid(
                    f"partition {partition}: {what} is {offset}, and the topic has [{first}, {after}). "
                    f"Fix: {fix}"
                )
