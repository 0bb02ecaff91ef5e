"""Rewrites of a table's files: each has an id of its own, and is verified by another process than made it.

The commit of a rewrite also names it in a property of the table. So it is known after its snapshots have
expired, whichever process made it and when, and a restored catalog has those of its own state. The list is
bounded: once all of it is verified, the ledger says so of the newest and all before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sluice.core.json_record import Document

# A property of the table.
REWRITES = "sluice.rewrites"
# Ids that it names. A table with more that are not verified is not deleted from.
MAX_NAMED = 64
_OF_CHANGE = "change-"


def id_of_change(change: str, key: str) -> str:
    """The id of a rewrite by a change. ``key``: unique; a change is made again after its catalog was
    restored."""
    return f"{_OF_CHANGE}{change}-{key}"


def id_of_foreign(snapshot_id: int) -> str:
    """The id of another program's rewrite, which has given it none."""
    return f"foreign-{snapshot_id}"


def is_of_change(rewrite: str) -> bool:
    """Whether its check is task verify_change, and not verify_compaction."""
    return rewrite.startswith(_OF_CHANGE)


def file_names_digest(removed: Iterable[str], added: Iterable[str]) -> str:
    """SHA-256 of the names of the files that a snapshot exchanged, in any order."""
    text = json.dumps([sorted(removed), sorted(added)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def verified_document(table: str, run_id: str, snapshots: Mapping[int, str], at: str) -> Document:
    """The document of a rewrite that was verified. ``snapshots``: each of its snapshots, with the digest of
    the names of the files that were compared."""
    files = {str(number): digest for number, digest in snapshots.items()}
    return {"table": table, "run_id": run_id, "snapshot_ids": list(snapshots), "files": files, "at": at}


def said_digest(document: Document | None, snapshot_id: int) -> str | None:
    """The digest of a snapshot's files; None if its rewrite was not verified, or by a version without it."""
    found = (document or {}).get("files", {}).get(str(snapshot_id))
    return str(found) if found else None


@dataclass(frozen=True)
class Rewrites:
    """``count``: of all rewrites of the table; ``newest``: ids of the newest of them, the oldest first."""

    count: int = 0
    newest: tuple[str, ...] = ()

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Rewrites:
        """From a table's properties."""
        text = properties.get(REWRITES)
        if not text:
            return cls()
        found = json.loads(text)
        return cls(found["count"], tuple(found["newest"]))

    def more(self, rewrite: str) -> Rewrites:
        return Rewrites(self.count + 1, (*self.newest, rewrite)[-MAX_NAMED:])

    def names_change(self, change: str) -> bool:
        """Whether a rewrite by this change is named."""
        return any(rewrite.startswith(id_of_change(change, "")) for rewrite in self.newest)

    def after(self, count: int) -> tuple[str, ...]:
        """Those behind the first ``count``, as far as they are named."""
        later = max(self.count - count, 0)
        return self.newest[max(len(self.newest) - later, 0) :]

    def to_json(self) -> str:
        return json.dumps({"count": self.count, "newest": list(self.newest)}, separators=(",", ":"))


@dataclass(frozen=True)
class Unverified:
    """``ids``: of rewrites without a verified document, the oldest first; ``unnamed``: number of those that
    the table does not name any more, so that it is unknown whether they are verified."""

    ids: tuple[str, ...] = ()
    unnamed: int = 0

    def __bool__(self) -> bool:
        return bool(self.ids or self.unnamed)


def unverified(
    rewrites: Rewrites, is_verified: Callable[[str], bool], is_verified_up_to: Callable[[str], bool]
) -> Unverified:
    """``is_verified``: whether the ledger has the rewrite's document; ``is_verified_up_to``: whether it says
    so of it and all before it. Usually one question, about the newest."""
    missing = list[str]()
    for rewrite in reversed(rewrites.newest):
        if is_verified_up_to(rewrite):
            return Unverified(tuple(missing[::-1]))
        if not is_verified(rewrite):
            missing.append(rewrite)
    return Unverified(tuple(missing[::-1]), rewrites.count - len(rewrites.newest))
