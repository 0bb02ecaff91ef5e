"""Messages of one schema as rows of the table: by Google's library, and by the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.lacking import lacking
from sluice.core.decoding.protobuf.messages import AnyMessage, WrittenAgain, fields_of, sorted_keys
from sluice.core.decoding.protobuf.schema import UnsupportedMessage
from sluice.core.decoding.protobuf.types import Type
from sluice.core.decoding.protobuf.values import row_of
from sluice.core.decoding.protobuf.wire import WireReader


class MessageReader:
    """Reads messages of ``writer`` into the columns of ``reader``. For one thread."""

    def __init__(self, writer: Descriptor, reader: Type, unknown: str = "") -> None:
        """``unknown``: the column of what the table lacks, empty if it is not kept. Raises UnsupportedMessage
        if no message of ``writer`` can be read so."""
        self._writer, self._unknown = writer, unknown
        try:
            self._class: Any = GetMessageClass(writer)
        # Its own: it makes classes of messages inside of each other, hundreds of them.
        except RecursionError:
            words = "more messages inside of each other than Google's library takes"
            raise UnsupportedMessage(f"{writer.full_name} has {words}") from None
        self._row, self._lacking = row_of(writer, reader), lacking(writer, reader)
        self._wire = WireReader(writer)
        self._has_required = _has_required(writer)

    def value(self, body: bytes) -> dict[str, Any]:
        """A value for each column. Raises Malformed."""
        try:
            message = self._class.FromString(body)
        except DecodeError as error:
            # Says why it is none.
            self._wire.read(body)
            raise Malformed(f"not a message {self._writer.full_name}: {error}") from error
        try:
            return self._values(message)
        except WrittenAgain:
            # Its bytes as they were sent.
            return self.reference(body)

    def reference(self, body: bytes) -> dict[str, Any]:
        """As :meth:`value`, read by other code."""
        return self._values(self._wire.read(body))

    def _values(self, message: AnyMessage) -> dict[str, Any]:
        if self._has_required and (path := next(_unset(self._writer, message), None)):
            raise Malformed(f"not a message {self._writer.full_name}: the required field {path} is not set")
        found: dict[str, Any] = self._row(message)
        if self._unknown:
            found[self._unknown] = self._lacking(message)
        return found


def _has_required(message: Descriptor) -> bool:
    """Whether a message, or one inside of it, however deep, has a field that must be set."""
    seen, left = {message.full_name}, [message]
    while left:
        for field in left.pop().fields:
            if field.is_required:
                return True
            inner = field.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                left.append(inner)
    return False


def _unset(descriptor: Descriptor, message: AnyMessage, path: str = "") -> Iterator[str]:
    """The paths of required fields that are not set."""
    values = fields_of(message)
    for field in descriptor.fields:
        inner = f"{path}.{field.name}" if path else field.name
        if field.number not in values:
            if field.is_required:
                yield inner
        elif (kind := field.message_type) is not None:
            value = values[field.number]
            if kind.GetOptions().map_entry:
                of_value = kind.fields_by_number[2].message_type
                each = [value[key] for key in sorted_keys(value)] if of_value is not None else []
                kind = of_value if of_value is not None else kind
            else:
                each = value if field.is_repeated else [value]
            for one in each:
                yield from _unset(kind, one, inner)
