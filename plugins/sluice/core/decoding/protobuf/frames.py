"""Which message of a schema a record is: Confluent's message indexes, between the schema id and the body.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-protobuf.html:
a number of indexes, then these, each as a varint in zigzag; a single zero stands for the first message.
"""

from __future__ import annotations

from sluice.core.decoding.decoder import Malformed

# Messages are declared inside of each other, a few levels deep.
_MAX_INDEXES = 32
_MAX_BYTES = 5
_FIRST = (0,)


def message_indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes, and where the message begins. Raises Malformed."""
    # As most records are.
    if body[:1] == b"\0":
        return _FIRST, 1
    count, at = _number(body, 0)
    if not count:
        return _FIRST, at
    if not 0 < count <= _MAX_INDEXES:
        raise Malformed(f"{count} message indexes behind its schema id: those are 1 to {_MAX_INDEXES}")
    found = []
    for _ in range(count):
        index, at = _number(body, at)
        if index < 0:
            raise Malformed(f"the message index {index} behind its schema id, which is none")
        found.append(index)
    return tuple(found), at


def _number(body: bytes, at: int) -> tuple[int, int]:
    raw = 0
    for place in range(_MAX_BYTES):
        if at + place >= len(body):
            raise Malformed("its bytes end in the message indexes behind its schema id")
        byte = body[at + place]
        raw |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), at + place + 1
    raise Malformed("its message indexes behind its schema id are too large")
