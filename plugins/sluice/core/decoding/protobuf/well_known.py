"""Google's well-known types, which are read in ways of their own: as they are, and no others of their names.
Times and lengths of time are in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.messages import fields_of, unknown_of

_PACKAGE = "google.protobuf"
_SECOND = 1_000_000_000
# timestamp.proto and duration.proto: the years 1 to 9999, and 10,000 years forwards and back.
_TIMES = (-62_135_596_800, 253_402_300_799)
_LONGEST = 315_576_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class OtherMessage(ValueError):
    """A schema defines another message under the name of one of Google's; its text says which."""


def check_googles(file: FileDescriptorProto) -> None:
    """Raises OtherMessage for a message of Google's whose fields are not those of Google's."""
    if file.package != _PACKAGE:
        return
    for message in file.message_type:
        if message.name in _GOOGLES and _shape(message) != _GOOGLES[message.name]:
            raise OtherMessage(f"its {_PACKAGE}.{message.name} has other fields than Google's")


def only_its_own(message: Any, name: str, path: str) -> None:
    """Raises Malformed for a message of Google's with a field that it does not have: its column, or its text,
    has no place for it."""
    if unknown := unknown_of(message):
        raise Malformed(f"{path} has the field {unknown[0].number}, which {name} lacks")


def _shape(message: DescriptorProto) -> tuple[Any, ...]:
    """What its values depend on."""
    fields = sorted(
        (field.number, field.name, field.type, field.label, field.type_name, field.HasField("oneof_index"))
        for field in message.field
    )
    return tuple(fields), bool(message.options.map_entry), tuple(map(_shape, message.nested_type))


def _googles(modules: Iterable[Any]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for module in modules:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        found |= {message.name: _shape(message) for message in file.message_type}
    return found


_GOOGLES = _googles((any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2))


def time_of(message: Any, path: str) -> int:
    """Nanoseconds since 1970 of a Timestamp. Raises Malformed for one that is none."""
    seconds, nanos = _parts(message, "Timestamp", path)
    if not _TIMES[0] <= seconds <= _TIMES[1] or not 0 <= nanos < _SECOND:
        raise Malformed(f"{path} is no time of the years 1 to 9999: seconds {seconds}, nanos {nanos}")
    return seconds * _SECOND + nanos


def length_of(message: Any, path: str) -> int:
    """Nanoseconds of a Duration. Raises Malformed for one that is none."""
    seconds, nanos = _parts(message, "Duration", path)
    if abs(seconds) > _LONGEST or abs(nanos) >= _SECOND or seconds * nanos < 0:
        raise Malformed(f"{path} is no duration: seconds {seconds}, nanos {nanos}")
    return seconds * _SECOND + nanos


def time_text(nanos: int) -> str:
    """As RFC 3339 has it, with six or nine digits of a second."""
    micros, rest = divmod(nanos, 1000)
    text = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text}{rest:03d}Z" if rest else f"{text}Z"


def _parts(message: Any, name: str, path: str) -> tuple[int, int]:
    only_its_own(message, f"{_PACKAGE}.{name}", path)
    found = fields_of(message)
    return found.get(1, 0), found.get(2, 0)
