"""What a load makes of a version of an object, given the contents that loads planned under its key.

Content is compared, not versions: an upload that is repeated, and a bucket that is restored by copy, make new
versions of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Known(StrEnum):
    """NEW: no load planned any content of the key that is not reverted. PLANNED: a load planned this version.
    SAME: a load planned its content, as another version. REVERTED: so too, and a change took its rows out.
    CHANGED: loads planned other content only."""

    NEW = "new"
    PLANNED = "planned"
    SAME = "same"
    REVERTED = "reverted"
    CHANGED = "changed"


@dataclass(frozen=True)
class Content:
    """A version, and ``source_id``, by which its rows are known: its own or, if an earlier version has the
    same content, that one's. ``size``: bytes."""

    source_id: str
    version_id: str | None
    etag: str
    size: int


@dataclass(frozen=True)
class Lookup:
    """``same``: of SAME and REVERTED whose content it is. ``others``: the other contents of the key whose
    rows are in the table or may come, the oldest first."""

    known: Known
    same: Content | None = None
    others: tuple[Content, ...] = ()


def look_up(
    own: Content,
    planned: Sequence[Content],
    reverted: Collection[str],
    is_equal: Callable[[Content], bool],
    *,
    is_asked: bool = False,
) -> Lookup:
    """``planned``: the key's contents, the oldest first; ``reverted``: source ids; ``is_equal`` compares the
    bytes of another version of the same size with those of ``own``, if its ETag tells nothing; ``is_asked``:
    a content whose rows were taken out is to be loaded as a new one.

    Equal ETags and sizes are equal bytes; other ETags are not always other bytes: those of an upload in parts
    depend on the parts' size, those of an encrypted object on its key.
    """
    by_etag = [one for one in planned if (one.etag, one.size) == (own.etag, own.size)]
    is_planned = any(one.source_id == own.source_id for one in planned)
    same = by_etag
    # A version that a load planned as it is needs no comparison.
    if not is_planned and not any(one.source_id not in reverted for one in by_etag):
        known = {one.source_id for one in by_etag}
        for one in reversed(planned):
            if one.size == own.size and one.source_id not in known and is_equal(one):
                same = [one, *by_etag]
                break
    ids = {own.source_id, *(one.source_id for one in same)}
    others = {one.source_id: one for one in planned if one.source_id not in {*reverted, *ids}}
    found = tuple(others.values())
    if is_planned:
        return Lookup(Known.PLANNED, None, found)
    if published := [one for one in same if one.source_id not in reverted]:
        return Lookup(Known.SAME, published[-1], found)
    if others:
        return Lookup(Known.CHANGED, None, found)
    return Lookup(Known.REVERTED, same[-1]) if same and not is_asked else Lookup(Known.NEW)
