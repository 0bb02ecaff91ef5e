"""A compiled schema: its messages, by name and by the place that Confluent's wire format names."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from sluice.core.decoding.protobuf.well_known import OtherMessage, check_googles
from sluice.core.error_codes import ErrorCode

# Files of one schema, with those that it imports, but for Google's well-known types.
MAX_FILES = 101
# How deep messages are declared inside of each other.
MAX_NESTED = 30
# A text of .proto has a semicolon, or quotes.
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")

# Files by the name under which they are imported -> the serialized FileDescriptorSet of one of them, and of
# all that it imports. Raises NotCompiled; another error says nothing of the schema.
Compile = Callable[[Mapping[str, str], str], bytes]


class NotCompiled(ValueError):
    """Texts that are no schema, or one that is beyond a bound; its text is the reason."""

    code = ErrorCode.SCHEMA_REFUSED


class UnsupportedMessage(ValueError):
    """A message that no table can have; its text is the reason, with the path."""

    code = ErrorCode.INVALID_CONFIGURATION


def descriptor_of(text: str) -> FileDescriptorProto | None:
    """A schema that was registered as a descriptor in base64; None for any other text."""
    if not _BASE64.fullmatch(text.rstrip()):
        return None
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError):
        return None
    # A word alone may be base64, and bytes may be a message without a field.
    return found if found.name or found.message_type else None


class ProtobufSchema:
    """The file ``root`` of a serialized FileDescriptorSet, with what it imports. Can be pickled."""

    def __init__(self, content: bytes, root: str) -> None:
        """Raises NotCompiled if Google's library does not take the descriptors, and for what is read in ways
        of its own: a message set, and a message with the name of one of Google's that is another one."""
        self._content, self._root_name = content, root
        files = FileDescriptorSet.FromString(content).file
        self._pool = DescriptorPool()
        try:
            for file in files:
                _take_out_extensions(file)
                check_googles(file)
                self._pool.Add(file)
            self._file = self._pool.FindFileByName(root)
        except OtherMessage as error:
            raise NotCompiled(str(error)) from error
        except (TypeError, KeyError, ValueError) as error:
            raise NotCompiled(f"its descriptors do not fit together: {error}") from error
        self._root = next(file for file in files if file.name == root)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._content, self._root_name)

    @cached_property
    def names(self) -> list[str]:
        """The full names of the messages of the file, in their order; those that others have inside follow
        them."""
        found: list[str] = []
        for one in self._root.message_type:
            found += _names(one, self._prefix)
        return found

    @property
    def first(self) -> str:
        """The first message's full name. Raises UnsupportedMessage without any."""
        if not self._root.message_type:
            raise UnsupportedMessage("the schema has no message")
        return self._prefix + self._root.message_type[0].name

    def message(self, name: str) -> Descriptor:
        """A message of the file by its full name. Raises UnsupportedMessage."""
        if name not in self.names:
            known = ", ".join(self.names[:10]) or "none"
            raise UnsupportedMessage(f"the schema has no message {name!r}; it has {known}")
        return self._pool.FindMessageTypeByName(name)

    def names_at(self, indexes: Sequence[int]) -> list[str]:
        """The full names of the messages that stand at the place: none, one or two.

        Python's serializer counts the entries of a map as messages, as descriptors have them, and Java's
        does not, as its texts have them. A message behind a map, inside of the same other message, so has two
        places, and a place may be two messages'.
        """
        return self._places.get(tuple(indexes), [])

    @cached_property
    def _places(self) -> dict[tuple[int, ...], list[str]]:
        """The names at all places: garbage names one after the other."""
        found: dict[tuple[int, ...], list[str]] = {}
        for with_entries in (False, True):
            for place, name in _named_places(self._root.message_type, (), self._prefix, with_entries):
                names = found.setdefault(place, [])
                if name not in names:
                    names.append(name)
        return found

    @property
    def _prefix(self) -> str:
        return f"{self._root.package}." if self._root.package else ""


def _names(message: DescriptorProto, prefix: str) -> Iterator[str]:
    if message.options.map_entry:
        return
    yield f"{prefix}{message.name}"
    for inner in message.nested_type:
        yield from _names(inner, f"{prefix}{message.name}.")


def _named_places(
    messages: Iterable[DescriptorProto], outer: tuple[int, ...], prefix: str, with_entries: bool
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Each message's place and full name. ``with_entries``: those of maps count, but have no name."""
    counted = (one for one in messages if with_entries or not one.options.map_entry)
    for index, one in enumerate(counted):
        if not one.options.map_entry:
            place, name = (*outer, index), f"{prefix}{one.name}"
            yield place, name
            yield from _named_places(one.nested_type, place, f"{name}.", with_entries)


def _take_out_extensions(file: FileDescriptorProto) -> None:
    """So that fields of extensions are what they are to a reader without them: unknown, by their numbers."""
    file.ClearField("extension")
    for message in file.message_type:
        _take_out(message, 0)


def _take_out(message: DescriptorProto, depth: int) -> None:
    if depth > MAX_NESTED:
        raise NotCompiled(f"its messages are declared more than {MAX_NESTED} levels deep")
    if message.options.message_set_wire_format:
        raise NotCompiled(f"{message.name} has the format of message sets, which is not read")
    message.ClearField("extension")
    for inner in message.nested_type:
        _take_out(inner, depth + 1)
