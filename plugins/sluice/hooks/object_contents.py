"""The index of contents: what loads planned under each key of the source bucket, in the ledger.

One document per content that was added, each with all contents of the key; its number is in its name, and it
is put only if no other run has put it. So of two runs that plan two versions of an object at once one sees
the other's. A look-up costs a LIST of one key, and a GET if the object is known; a new content a PUT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sluice.clients.errors import Missing, Unreachable
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import (
    Document,
    contents_key,
    contents_number,
    contents_prefix,
    planned_key,
    produced_key,
)
from sluice.model.verification.contents import Content, Known, Lookup, look_up
from sluice.model.verification.sources import source_id

if TYPE_CHECKING:
    from sluice.clients.ledger import Ledger
    from sluice.clients.objects import Bucket, ObjectVersion
    from sluice.hooks.verified import VerifiedSources

ATTEMPTS = 5


@dataclass(frozen=True)
class Found:
    """What a load makes of ``version``, and the ``planned`` contents of its key in document ``number``."""

    version: ObjectVersion
    lookup: Lookup
    planned: tuple[Content, ...] = ()
    number: int = 0

    @property
    def known(self) -> Known:
        return self.lookup.known

    @property
    def is_own(self) -> bool:
        """Whether the version is a source of its own."""
        return self.lookup.same is None

    @property
    def others(self) -> tuple[Content, ...]:
        return self.lookup.others

    @property
    def source_id(self) -> str:
        """By which the version's rows are known."""
        return self.lookup.same.source_id if self.lookup.same else self.version.source_id

    def document(self) -> Document:
        """The version as a plan's source: with the bytes of this one, whose earlier one may be gone."""
        return {**asdict(self.version), "source_id": self.source_id}

    def uploaded_again(self) -> Document:
        """The version, and whose content it has."""
        same = self.lookup.same
        if same is None:
            raise ValueError(f"{self.version.uri}: no other version with its content")
        return {
            "source_id": self.version.source_id,
            "bucket": self.version.bucket,
            "key": self.version.key,
            "version_id": self.version.version_id,
            "same_as": same.source_id,
            "loaded_version_id": same.version_id,
            "is_reverted": self.known is Known.REVERTED,
        }


@dataclass(frozen=True)
class ObjectContents:
    """The index of the table that ``verified`` is of. ``is_asked``: contents whose rows a change took out
    are to be loaded again, and other contents beside those that are loaded."""

    ledger: Ledger
    bucket: Bucket
    verified: VerifiedSources
    is_asked: bool = False

    def claim(
        self, versions: Sequence[ObjectVersion], choose: Callable[[list[Found]], list[Found]]
    ) -> list[Found]:
        """Look up the versions, and add those that ``choose`` returns to the index; it may raise instead.

        Raises Unreachable if other runs plan the same objects at each attempt.
        """
        from sluice.io.s3 import at_once

        for _ in range(ATTEMPTS):
            found = at_once(versions, self.look_up)
            if all(at_once(choose(found), self._add)):
                return found
        raise Unreachable(
            f"other runs of {self.ledger.stream} planned the same objects at each of {ATTEMPTS} attempts. "
            "Fix: clear the produce task",
            ErrorCode.SYSTEM_UNREACHABLE,
        )

    def look_up(self, version: ObjectVersion) -> Found:
        number, planned = self._newest(version)
        own = _content(version, version.source_id)

        def is_equal(other: Content) -> bool:
            return self.bucket.has_content(version, other.version_id, other.etag)

        reverted = self.verified.reverted if planned else frozenset()
        lookup = look_up(own, planned, reverted, is_equal, is_asked=self.is_asked)
        return Found(version, lookup, planned, number)

    def run_of(self, content: Content) -> tuple[str, bool]:
        """The run that planned a content, and whether all of it was sent."""
        planned = self.ledger.get(planned_key(content.source_id)) or {}
        is_sent = self.ledger.get(produced_key(content.source_id)) is not None
        return str(planned.get("run_id", "unknown")), is_sent

    def _newest(self, version: ObjectVersion) -> tuple[int, tuple[Content, ...]]:
        if self.verified.lineage is None:
            return 0, ()
        prefix = contents_prefix(self.verified.lineage, object_id(version))
        for key in self.ledger.keys(prefix, limit=1):
            document = self.ledger.require(key, "produce")
            return contents_number(key), tuple(Content(**one) for one in document["contents"])
        return 0, ()

    def _add(self, found: Found) -> bool:
        """Whether the version's content is in the index now, by this call or as another run of the same
        version had it; else the key has another content since it was looked up."""
        version, lineage = found.version, self.verified.lineage
        if lineage is None:
            raise Missing(
                f"{self.verified.table} has no published snapshot, so it is not known what it holds of "
                f"{version.uri}. Fix: clear the ensure_consumer task with its downstream tasks",
                ErrorCode.TABLE_NOT_FOUND,
            )
        own = _content(version, found.source_id)
        if any((one.source_id, one.etag) == (own.source_id, own.etag) for one in found.planned):
            return True
        document = {
            "bucket": version.bucket,
            "key": version.key,
            "contents": [asdict(one) for one in (*found.planned, own)],
        }
        key = contents_key(lineage, object_id(version), found.number + 1)
        return self.ledger.put(key, document) == document


def object_id(version: ObjectVersion) -> str:
    """16 hex digits of an object, whatever its version."""
    return source_id(version.bucket, version.key, "")


def _content(version: ObjectVersion, source: str) -> Content:
    return Content(source, version.version_id, version.etag, version.size)
