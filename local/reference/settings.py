"""The keys of stream.toml, platform files and notifications.toml, from their dataclasses."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from local.reference.blocks import table
from sluice.config.notifications import Rule
from sluice.config.platform import Platform
from sluice.config.reading import limits
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from sluice.config.stream import StreamSpec

TYPES = {str: "text", int: "number", bool: "true, false", list: "list", dict: "table"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """``key``: with its sections, by dots. ``hint``: its type, never a dataclass."""

    key: str
    hint: Any
    default: str
    meaning: str

    @property
    def type(self) -> str:
        return TYPES[typing.get_origin(self.hint) or self.hint]

    @property
    def bounds(self) -> str:
        if self.hint is not int:
            return ""
        least, most = limits.bounds(self.key.rsplit(".", 1)[-1])
        return f"at least {least}" if most == limits.MAX_INTEGER else f"{least} to {most}"


def settings(cls: Any, prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a declaration's dataclass, nested ones too.

    Raises LookupError for a key without description.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        hint, key = hints[field.name], f"{prefix}{field.name}"
        meaning = ""
        if typing.get_origin(hint) is typing.Annotated:
            hint, meaning = typing.get_args(hint)
        if isinstance(hint, types.UnionType):
            (hint,) = [part for part in typing.get_args(hint) if part is not types.NoneType]
        if dataclasses.is_dataclass(hint):
            yield from settings(hint, f"{key}.")
        elif (
            not meaning
            and typing.get_origin(hint) is dict
            and dataclasses.is_dataclass(item := typing.get_args(hint)[1])
        ):
            yield from settings(item, f"{key}.<role>.")
        elif not meaning:
            raise LookupError(f"{cls.__name__}.{field.name} has no description. Fix: make it an Annotated")
        else:
            yield Setting(key, hint, _default(field), meaning)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return ", ".join(field.default_factory()) or "empty"
    if field.default is dataclasses.MISSING:
        return "–"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return "empty" if field.default in ("", None) else str(field.default)


def of_streams() -> Mapping[str, str]:
    return {
        "keys of streams": _bounded("key", StreamSpec),
        "keys of queries": _bounded("query's key", Query),
        "keys of sinks": _bounded("sink's key", Sink),
    }


def of_notifications() -> Mapping[str, str]:
    return {"keys of notifications": _plain(Rule)}


def of_platforms() -> Mapping[str, str]:
    return {"keys of platform files": _plain(Platform)}


def _bounded(title: str, cls: Any) -> str:
    rows = [[f"`{one.key}`", one.type, one.default, one.bounds, one.meaning] for one in settings(cls)]
    return table([title, "type", "default", "bounds", "meaning"], rows)


def _plain(cls: Any) -> str:
    rows = [[f"`{one.key}`", one.type, one.default, one.meaning] for one in settings(cls)]
    return table(["key", "type", "default", "meaning"], rows)
