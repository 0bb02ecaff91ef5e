"""The index of contents: what loads planned under each key of the source bucket, in the ledger.

One document per content that was added, each with all contents of the key, but of a source no more than the
newest ETAGS; its number is in its name, and it is put only if no other run has put it. So of two runs that
plan two versions of an object at once one sees the other's. A look-up costs a LIST of one key; if the object
is known, a GET, and one per source; a new content a PUT.

The index may be lost, with the ledger or by a new incarnation. So a key without a document is looked up among
the versions that the bucket has of it, by their plans, and the next content writes the document from that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.core.offsets.sources import source_id
from sluice.ledger.keys import contents_key, contents_number, contents_prefix, planned_key, produced_key
from sluice.loads.known.contents import Content, Known, Lookup, look_up

if TYPE_CHECKING:
    from sluice.clients.s3.objects import Bucket, ObjectVersion
    from sluice.ledger.documents import Ledger
    from sluice.loads.known.verified import VerifiedSources

ATTEMPTS = 5
# How many of a source's versions a document names: the same bytes may have another ETag at each upload.
ETAGS = 8


@dataclass(frozen=True)
class Found:
    """What a load makes of ``version``, by the ``lookup`` of its content, and the contents ``indexed`` of its
    key, the oldest first, in document ``number``; 0 if there is none, and they are from the bucket's
    versions. ``unplanned``: contents of the key that have no plan, so nothing of them was sent. ``topic_id``:
    of the table's topic."""

    version: ObjectVersion
    lookup: Lookup
    topic_id: str | None
    indexed: tuple[Content, ...] = ()
    number: int = 0
    unplanned: tuple[Content, ...] = ()

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
        return {**asdict(self.version), "source_id": self.source_id, "topic_id": self.topic_id}

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
    """The index in ``ledger`` of the objects of the source ``bucket``, for the table that ``verified`` is of.
    ``is_asked``: contents whose rows a change took out are to be loaded again, and other contents beside
    those that are loaded. ``single``: as of ``Current``."""

    ledger: Ledger
    bucket: Bucket
    verified: VerifiedSources
    is_asked: bool = False
    single: Collection[str] = ()

    def claim(
        self, versions: Sequence[ObjectVersion], choose: Callable[[list[Found]], list[Found]]
    ) -> list[Found]:
        """Look up the versions, and add those that ``choose`` returns to the index; it may raise instead.

        Raises Refused if the table has rows of a version that the ledger does not know; Unreachable if other
        runs plan the same objects at each attempt.
        """
        from sluice.clients.s3.requests import at_once

        for _ in range(ATTEMPTS):
            found = at_once(versions, self._look_up_and_keep)
            self._check_unplanned(found)
            chosen = choose(found)
            # A run that plans another content since it was looked up may not see this one's: it is seen here.
            if all(at_once(chosen, self._add)) and not any(at_once(chosen, self._is_other_planned)):
                return found
        raise Unreachable(
            f"other runs of {self.ledger.stream} planned the same objects at each of {ATTEMPTS} attempts. "
            "Fix: clear the produce task",
            ErrorCode.SYSTEM_UNREACHABLE,
        )

    def _look_up_and_keep(self, version: ObjectVersion) -> Found:
        """As :meth:`look_up`. What was compared by its bytes is in the index at once: whatever ends this
        attempt, the next one does not read them again."""
        found = self.look_up(version)
        same = found.lookup.same
        # Without a document the next attempt asks again which contents have no plan: that is not to be lost.
        is_read = found.known is Known.SAME and same is not None and same.etag != version.etag
        if is_read and found.number and self._add(found):
            return replace(found, indexed=_with(found.indexed, _own(found)), number=found.number + 1)
        return found

    def look_up(self, version: ObjectVersion) -> Found:
        from sluice.clients.s3.requests import at_once

        number, indexed = self._newest(version)
        ids = list(dict.fromkeys(one.source_id for one in indexed))
        plans = dict(zip(ids, at_once(ids, lambda one: self.ledger.get(planned_key(one))), strict=True))
        unplanned = tuple(
            one for one in indexed if plans[one.source_id] is None and one.source_id != version.source_id
        )
        planned = [one for one in indexed if plans[one.source_id]]
        if not number:
            # The source's plan is of its bucket, key and version, whatever topic it was sent to.
            planned = [one for one in planned if self._is_of_topic(plans[one.source_id] or {})]
            planned.sort(key=lambda one: str((plans[one.source_id] or {})["at"]))
            indexed = tuple(planned)
        own, has_bytes = _content(version, version.source_id), self.bucket.equal_to(version)

        def is_equal(other: Content) -> bool:
            return has_bytes(other.version_id, other.etag)

        reverted = self.verified.reverted if planned else frozenset()
        lookup = look_up(own, planned, reverted, is_equal, is_asked=self.is_asked)
        return Found(version, lookup, self.verified.topic_id, indexed, number, unplanned)

    def sent(self, content: Content) -> tuple[Document | None, bool]:
        """How a content was planned, and whether all of it was sent."""
        is_sent = self.ledger.get(produced_key(content.source_id)) is not None
        return self.ledger.get(planned_key(content.source_id)), is_sent

    def _newest(self, version: ObjectVersion) -> tuple[int, tuple[Content, ...]]:
        """Number and contents of the key's document; 0, and the bucket's versions of it, without one."""
        if self.verified.incarnation is None:
            return 0, ()
        number, contents = newest_contents(self.ledger, self.verified.incarnation, object_id(version))
        if number:
            return number, contents
        if version.key in self.single:
            return 0, ()
        found = [one for one, _ in self.bucket.versions(version.key) if one.key == version.key]
        # The newest is listed first.
        return 0, tuple(_content(one, one.source_id) for one in reversed(found))

    def _is_of_topic(self, planned: Document) -> bool:
        """Whether a source was planned for the topic of the table; else its rows went with the other one."""
        return bool(planned.get("topic_id") == self.verified.topic_id)

    def _is_other_planned(self, found: Found) -> bool:
        return any(self.ledger.get(planned_key(one.source_id)) for one in found.unplanned)

    def _check_unplanned(self, found: Sequence[Found]) -> None:
        """Raises Refused if the table has rows of a content without a plan: the ledger has lost it."""
        of = {one.source_id: (each.version.uri, one) for each in found for one in each.unplanned}
        held = self.verified.held(of) if of else ()
        if not held:
            return
        names = [
            f"{uri} version {one.version_id or one.etag} (source id {one.source_id})"
            for uri, one in (of[source_id] for source_id in sorted(held))
        ]
        raise Refused(
            f"{self.verified.table} has rows of {summarize(names)}, and the ledger has no plan of it: it was "
            "restored to an earlier state, or lost documents. So it is not known what is loaded; nothing was "
            f"sent. Fix: restore {self.ledger.uri('sources/<source id>/')}, or take the rows out "
            f"({self.ledger.stream}_change with action remove, and their offsets as ranges)",
            ErrorCode.KEY_ALREADY_LOADED,
        )

    def _add(self, found: Found) -> bool:
        """Whether the version's content is in the index now, by this call or as another run of the same
        version had it; else the key has another content since it was looked up."""
        version, incarnation = found.version, self.verified.incarnation
        if incarnation is None:
            raise Missing(
                f"{self.verified.table} has no published snapshot, so it is not known what it holds of "
                f"{version.uri}. Fix: clear the ensure_consumer task with its downstream tasks",
                ErrorCode.TABLE_NOT_FOUND,
            )
        contents = _with(found.indexed, _own(found))
        # Behind those that were planned since an attempt that ended before its plan.
        before = [one for one in found.indexed if not _is_same(one, contents[-1])]
        is_there = len(before) < len(found.indexed)
        is_newest = is_there and found.indexed[-1] not in before
        if found.number and (is_newest or (is_there and found.known in (Known.PLANNED, Known.SAME))):
            return True
        document = {
            "bucket": version.bucket,
            "key": version.key,
            "contents": [asdict(one) for one in contents],
        }
        key = contents_key(incarnation, object_id(version), found.number + 1)
        return self.ledger.put(key, document) == document


def newest_contents(ledger: Ledger, incarnation: str, object_id: str) -> tuple[int, tuple[Content, ...]]:
    """Number and contents of an object's document; 0, and none, without one."""
    for key in ledger.keys(contents_prefix(incarnation, object_id), limit=1):
        document = ledger.require(key, "produce")
        return contents_number(key), tuple(Content(**one) for one in document["contents"])
    return 0, ()


def object_id(version: ObjectVersion) -> str:
    """16 hex digits of an object, whatever its version."""
    return source_id(version.bucket, version.key, "")


def _own(found: Found) -> Content:
    return _content(found.version, found.source_id)


def _is_same(one: Content, other: Content) -> bool:
    return (one.source_id, one.etag) == (other.source_id, other.etag)


def _with(indexed: Sequence[Content], own: Content) -> tuple[Content, ...]:
    """The contents with ``own`` as the newest, and of its source no more than ETAGS."""
    before = [one for one in indexed if not _is_same(one, own)]
    of_source = [one for one in before if one.source_id == own.source_id]
    dropped = of_source[: max(len(of_source) + 1 - ETAGS, 0)]
    return (*(one for one in before if one not in dropped), own)


def _content(version: ObjectVersion, source: str) -> Content:
    return Content(source, version.version_id, version.etag, version.size)
