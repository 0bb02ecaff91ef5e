"""What a feed gave during a run. It cannot be asked again: the topic's offsets stand for its events."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from sluice.config.reading.values import shown_address
from sluice.core.json_record import Document
from sluice.loads.sources.base import Counted, Dataset, Source

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.systems import Systems


@dataclass(frozen=True)
class FeedSource(Source):
    """Each run's is a source of its own: a feed has no versions."""

    KIND = "feed"
    COUNTED = Counted.EVENTS
    MEANING = (
        "each event that arrived is in the table once, or in quarantine; nothing is said of events that the "
        "feed did not deliver"
    )
    IS_LASTING = False

    @classmethod
    def from_now(cls, kafka: KafkaAdmin, run_id: str, topic: str, address: str) -> Self:
        """What the feed at ``address`` gives from now on."""
        source_id = f"feed-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"
        topic_id = kafka.describe(topic).id
        # The ledger, pages and events of assets show it.
        feed = shown_address(address)
        return cls({"source_id": source_id, "kind": cls.KIND, "feed": feed, "topic_id": topic_id})

    @property
    def address(self) -> str:
        return str(self.document["feed"])

    @property
    def name(self) -> str:
        return f"feed {self.address}"

    @property
    def identity(self) -> Document:
        return {"feed": self.address}

    def send_again(self) -> str:
        return "trigger a new run"

    def send_by_other_rules(self, stream: str) -> str:
        return self.send_again()

    def rows(self, systems: Systems) -> int | None:
        return None

    @classmethod
    def datasets(cls, sources: Sequence[Self]) -> list[Dataset]:
        found = []
        for source in sources:
            address = urlsplit(source.address)
            # Without a user and a password, which an address of an earlier release may have.
            host = address.netloc.rpartition("@")[2]
            found.append(Dataset(f"{address.scheme}://{host}", address.path or "/"))
        return found

    def starts_until(self, ends: Mapping[int, int]) -> dict[int, int]:
        """A partition that was added since counts from its first offset."""
        return dict.fromkeys(sorted(ends), 0) | self.start_offsets
