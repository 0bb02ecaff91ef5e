"""Records of others in a topic that they fill: known by their offsets alone, which the load pins."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sluice.core.json_record import Document
from sluice.loads.known.topic_loads import TopicLoads
from sluice.loads.sources.base import Counted, Dataset, Source

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems


@dataclass(frozen=True)
class TopicSource(Source):
    """Offsets of a topic, from its ``start_offsets`` to before its ``end_offsets``. Each run's are a source
    of its own."""

    KIND = "topic"
    COUNTED = Counted.OFFSETS
    MEANING = (
        "each offset is in the table once, or in quarantine, or accounted for as without a record; records "
        "before the stream's start are not claimed, and nothing is said of what others sent, or did not send"
    )
    IS_LASTING = False

    @classmethod
    def from_offsets(
        cls,
        run_id: str,
        topic: str,
        topic_id: str,
        offsets: tuple[Mapping[int, int], Mapping[int, int]],
        more: Document,
    ) -> Self:
        """``offsets``: the first ones, and those behind the last, of the same partitions; ``more``: further
        entries of the document."""
        starts, ends = ({str(p): offset for p, offset in sorted(one.items())} for one in offsets)
        source_id = f"topic-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"
        document = {"source_id": source_id, "kind": cls.KIND, "topic": topic, "topic_id": topic_id}
        return cls({**document, "start_offsets": starts, "end_offsets": ends, **more})

    @property
    def topic(self) -> str:
        return str(self.document["topic"])

    @property
    def end_offsets(self) -> dict[int, int]:
        """Partition -> the offset behind the load's last."""
        return {int(partition): offset for partition, offset in self.document["end_offsets"].items()}

    @property
    def name(self) -> str:
        return f"topic {self.topic}"

    @property
    def identity(self) -> Document:
        named = ("topic", "topic_id", "start_offsets", "end_offsets", "stream_start", "interval")
        return {name: self.document[name] for name in named if name in self.document}

    def send_again(self) -> str:
        return "trigger a new run"

    def send_by_other_rules(self, stream: str) -> str:
        return self.send_again()

    def record_verified(self, ledger: Ledger, incarnation: str | None, run_id: str) -> None:
        # One of an interval does not say that all before it is verified.
        if incarnation is not None and "interval" not in self.document:
            TopicLoads(ledger, incarnation).record_verified(self.end_offsets, run_id)

    def rows(self, systems: Systems) -> int | None:
        return None

    @classmethod
    def datasets(cls, sources: Sequence[Self]) -> list[Dataset]:
        """None: the topic is a dataset of every load."""
        return []
