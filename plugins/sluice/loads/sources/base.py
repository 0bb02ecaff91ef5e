"""A source of a load: what all kinds have, and what each says for itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Self

from sluice.core.json_record import Document
from sluice.loads.heads import head_of

if TYPE_CHECKING:
    from sluice.clients.lake.commits import Head
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems


class Counted(StrEnum):
    """By what a source's records are verified. ROWS: their keys name source and row, so each row of the
    source is looked for. EVENTS: they are known by their offsets, and each has an event id of its own.
    OFFSETS: by their offsets alone, which others wrote."""

    ROWS = "rows"
    EVENTS = "events"
    OFFSETS = "offsets"


@dataclass(frozen=True)
class Dataset:
    """OpenLineage's names of what sources are read from. ``files``: number of objects, ``size``: their bytes;
    None of what has none."""

    namespace: str
    name: str
    files: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Source(ABC):
    """``document``: as the ledger has it. Only what is asked for is read from it."""

    document: Document

    # The document's ``kind``; an object version has none.
    KIND: ClassVar[str | None]
    COUNTED: ClassVar[Counted] = Counted.ROWS
    # What a proof says of the source's records, in words.
    MEANING: ClassVar[str] = "each row of the source is in the table once, or in quarantine"
    # Whether a later load may have the source again.
    IS_LASTING: ClassVar[bool] = True
    # Entries of the document that a plan has of its own, whatever planned the source first.
    OF_PLAN: ClassVar[tuple[str, ...]] = ()

    @property
    def source_id(self) -> str:
        return str(self.document["source_id"])

    @property
    @abstractmethod
    def name(self) -> str:
        """In messages and tables."""

    @property
    @abstractmethod
    def identity(self) -> Document:
        """In results and proofs, beside its id."""

    @abstractmethod
    def send_again(self) -> str:
        """How the same records are sent to another topic, after ``Fix:``."""

    @abstractmethod
    def send_by_other_rules(self, stream: str) -> str:
        """How the same records are sent by rules that changed since, after what takes out the rest."""

    @abstractmethod
    def rows(self, systems: Systems) -> int | None:
        """The number of its rows, apart from what was sent; None if only the topic tells."""

    @classmethod
    @abstractmethod
    def datasets(cls, sources: Sequence[Self]) -> list[Dataset]:
        """What sources of this kind were read from."""

    @property
    def start_time(self) -> str | None:
        """The start of the interval that its records belong to, if they belong to one."""
        return None

    @property
    def run_id(self) -> str:
        """The id of the load that planned it first."""
        return str(self.document["run_id"])

    @property
    def is_sent(self) -> bool:
        """Whether it was sent before the plan that it is in was made."""
        return bool(self.document.get("produced"))

    @property
    def is_withheld(self) -> bool:
        """Whether the stream leaves its records to a change."""
        return bool(self.document.get("withheld"))

    @property
    def start_offsets(self) -> dict[int, int]:
        """Partition -> the first offset that a record of it may have."""
        return {int(partition): offset for partition, offset in self.document["start_offsets"].items()}

    def starts_until(self, ends: Mapping[int, int]) -> dict[int, int]:
        """The start offsets of its records before ``ends``, the topic's end offsets after it was sent."""
        return self.start_offsets

    def head(self, table: str) -> Head | None:
        """The table's newest snapshot when the source was planned; None if it had none."""
        return head_of(self.document, table)

    def record_verified(self, ledger: Ledger, incarnation: str | None, run_id: str) -> None:
        """Note that a load verified it, for loads that begin where that ended: those of a topic of others."""
        return

    def of_plan(self) -> Document:
        """The entries OF_PLAN."""
        return {name: self.document[name] for name in self.OF_PLAN if name in self.document}
