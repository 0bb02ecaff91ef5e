"""What a number means as one of another type, for both decoders: of times, dates and decimals the number
alone says no more than how large it is.

Avro's rules of resolution compare no logical types, and Avro's libraries read the number as it is: a ``long``
of milliseconds as microseconds, a day as a moment. Here a type with a meaning is read from one with the same
meaning only; a column without one has the number that was sent.
"""

from __future__ import annotations

from sluice.core.decoding.avro.types import JSON, MAX_PRECISION, RECURSIVE, Type

# The largest of consecutive whole numbers that a float and a double have.
_EXACT = {"float": 1 << 24, "double": 1 << 53}
_COLUMNS = {
    "int": "INT",
    "long": "BIGINT",
    "bytes": "BINARY",
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}


def is_same(writer: Type, reader: Type) -> bool:
    """Whether each value of ``writer`` that is one of ``reader``, neither of them a union, means the same."""
    if not reader.logical:
        # A decimal's bytes are no text, and Avro reads bytes as one.
        return reader.kind != "string" or writer.kind != "bytes" or not (writer.logical or writer.note)
    if writer.logical == reader.logical:
        return writer.digits[1] == reader.digits[1]
    return is_millis(writer, reader)


def is_millis(writer: Type, reader: Type) -> bool:
    """Whether it is a time in milliseconds that is read as the same one in microseconds."""
    return writer.logical.endswith("millis") and writer.logical.replace("millis", "micros") == reader.logical


def is_decimal(writer: Type, reader: Type) -> bool:
    """Whether both are decimals: of one scale the same numbers, be they bytes or of a fixed size."""
    return writer.logical == reader.logical == "decimal"


def exact(writer: Type, reader: Type) -> int:
    """The absolute value up to which each number of ``writer`` is one of ``reader``; 0 if all of them are."""
    most = _EXACT.get(reader.kind, 0) if writer.kind in ("int", "long") else 0
    return 0 if writer.kind == "int" and reader.kind == "double" else most


def why_not(writer: Type, reader: Type) -> str:
    """Both types, and a type of column that has the writer's values, for people."""
    if writer.logical == "decimal":
        column = f"DECIMAL({min(writer.digits[0], MAX_PRECISION)}, {writer.digits[1]})"
    else:
        column = _COLUMNS.get(writer.logical or writer.kind, "")
    says = f"{described(reader)}, and was {described(writer)}"
    is_number = column and not is_same(writer, reader)
    return f"{says}: declare it {column}" if is_number else says


def described(kind: Type) -> str:
    """A type for people."""
    if kind.logical == "decimal":
        return f"decimal({kind.digits[0]}, {kind.digits[1]})"
    if kind.kind in ("record", "enum", "fixed"):
        named = f"the {kind.kind} {kind.name}"
        return f"{named} ({kind.note})" if kind.note else named
    if kind.kind in (RECURSIVE, JSON):
        return f"a {kind.name} inside of another one" if kind.kind == RECURSIVE else "a text of JSON"
    if kind.kind == "union":
        return f"one of {', '.join(map(described, kind.branches))}"
    return f"{kind.kind} ({kind.note})" if kind.note else kind.logical or kind.kind
