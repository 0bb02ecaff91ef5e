"""Who a row is: the identity that travels from a source object through the topic into the lake."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

# The record's key on the topic, as a regular expression that Spark (Java) and Python both understand.
KEY_PATTERN = r"^([0-9a-f]{16}):([0-9]{1,18}):([0-9]{1,18})$"


class RowIdentity(NamedTuple):
    """``row``: 0-based data row of the object; ``seq``: its 0-based place among the rows sent to its lane."""

    source_id: str
    row: int
    seq: int


def source_id(bucket: str, key: str, version: str) -> str:
    """The 16 hex digits that stand for one version of one object.

    ``version`` is the object's version id, or its ETag where the bucket keeps no versions, so that an
    object that was overwritten is another source and one that was only listed again is the same.
    """
    return hashlib.sha256(f"{bucket}\n{key}\n{version}".encode()).hexdigest()[:16]


def parse_key(key: bytes | None) -> RowIdentity | None:
    """The identity in a record's key, or None for a record that another producer wrote."""
    match = re.match(KEY_PATTERN, (key or b"").decode("ascii", "replace"))
    return RowIdentity(match[1], int(match[2]), int(match[3])) if match else None
