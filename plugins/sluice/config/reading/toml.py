"""Typed reading of TOML."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from sluice.config.reading.values import secrets_in, shown
from sluice.core.error_codes import ErrorCode

T = TypeVar("T")
# Name of a stream, query or result's column, or of a part of a table's: PostgreSQL and Kubernetes take 63
# characters.
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
IDENTIFIER_FIX = "Fix: use at most 63 lower-case letters, digits and _, a letter first"


class ConfigError(ValueError):
    """A declaration is wrong. The message names the file, the key, the value and the fix."""

    code = ErrorCode.INVALID_CONFIGURATION


class Follows(Protocol):
    """What follows a reference, which stands in place of a text (``references.References``)."""

    def text(self, reference: Mapping[str, Any], where: str, *, is_secret: bool) -> str: ...


def build(cls: type[T], data: Mapping[str, Any], where: str, references: Follows | None = None) -> T:
    """Make the frozen dataclass ``cls`` from parsed TOML, nested tables included.

    ``where`` names the place in messages. ``references``: a table in place of any text is one; None: it is an
    error. Raises ConfigError for an unknown or missing key, or a value of
    another type (a bool is no int); the value of a field with ``repr=False`` is a secret, and not named.
    """
    fields, hints = _fields(cls)  # type: ignore[arg-type]
    unknown = sorted(set(data) - set(fields))
    if unknown:
        raise ConfigError(
            f"{where}: unknown key {shown(unknown[0])}; known keys are {', '.join(sorted(fields))}. Fix: "
            "remove or correct it"
        )
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in data:
            place, is_secret = f"{where} {name}", not field.repr
            if is_secret and not isinstance(data[name], str if references is None else (str, Mapping)):
                raise ConfigError(f"{place}: it is a {type(data[name]).__name__}. Fix: give a str, in quotes")
            values[name] = _value(hints[name], data[name], place, references, is_secret)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(
                f"{where}: key {name!r} is missing. Fix: add {name} = … ({_type_name(hints[name])})"
            )
    return cls(**values)


@cache
def _fields(cls: type[Any]) -> tuple[dict[str, dataclasses.Field[Any]], dict[str, Any]]:
    """By name: the fields of a dataclass, and their types, which are evaluated from text."""
    return {field.name: field for field in dataclasses.fields(cls)}, typing.get_type_hints(cls)


def secrets(settings: object) -> list[str]:
    """The texts of a dataclass, nested ones included, that are secret: fields with ``repr=False``, and what
    of addresses is. None is empty."""
    found: list[str] = []
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            found += secrets(value)
        elif isinstance(value, Mapping):
            for element in value.values():
                nested = dataclasses.is_dataclass(element)
                found += secrets(element) if nested else secrets_in(element)
        elif not field.repr:
            found.append(value)
        elif isinstance(value, str) and "://" in value:
            found += secrets_in(value)
    return [text for text in found if text]


def _value(
    hint: Any, value: Any, where: str, references: Follows | None = None, is_secret: bool = False
) -> Any:
    if hint is Any:
        return value
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (component for component in typing.get_args(hint) if component is not type(None))
    if hint is str and isinstance(value, Mapping) and references is not None:
        return references.text(value, where, is_secret=is_secret)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ConfigError(
                f"{where}: {shown(value)} is not a table. Fix: write [{where.rsplit(' ', 1)[-1]}]"
            )
        return build(typing.cast("type[Any]", hint), value, where, references)
    if typing.get_origin(hint) is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}: {shown(value)} is not a table. Fix: write keys and values")
        _, item = typing.get_args(hint)
        read = _text if item is str else partial(_value, item)
        return {key: read(element, f"{where} {shown(key)}", references) for key, element in value.items()}
    if typing.get_origin(hint) is list:
        if not isinstance(value, list):
            raise ConfigError(f"{where}: {shown(value)} is not a list. Fix: write […]")
        (item,) = typing.get_args(hint)
        return [_value(item, element, where, references) for element in value]
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(
            f"{where}: {shown(value)} is a {type(value).__name__}. Fix: give a {_type_name(hint)}"
        )
    return value


def _text(value: Any, where: str, references: Follows | None = None) -> str:
    if isinstance(value, Mapping) and references is not None:
        return references.text(value, where, is_secret=False)
    if not isinstance(value, str | int | float):
        raise ConfigError(
            f"{where}: {shown(value)} is a {type(value).__name__}. Fix: give a text, a number or a boolean"
        )
    # Kafka's configs are strings, with booleans in lower case.
    return str(value).lower() if isinstance(value, bool) else str(value)


def toml(text: str, where: str) -> dict[str, Any]:
    """Raises ConfigError naming ``where``."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{where}: not valid TOML: nested too deeply. Fix: write it flatter") from error
    # A syntax error, or a number of thousands of digits.
    except ValueError as error:
        raise ConfigError(f"{where}: not valid TOML: {shown(str(error))}. Fix: correct the syntax") from error


def dump(document: Mapping[str, Any], within: str = "") -> str:
    """TOML of texts, numbers and, behind them, tables; ``within``: in front of the names of these."""
    lines = []
    for key, value in sorted(document.items(), key=lambda item: isinstance(item[1], Mapping)):
        if isinstance(value, Mapping):
            name = f"{within}{key}"
            lines += ["", f"[{name}]", dump(value, f"{name}.").rstrip("\n")] if value else []
        else:
            # JSON's texts and numbers are TOML's too, but for one character.
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f"))
    return "\n".join(lines).rstrip("\n") + "\n"


def _type_name(hint: Any) -> str:
    return getattr(hint, "__name__", str(hint))
