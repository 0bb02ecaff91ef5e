"""All streams: found in their folders, read with this installation's overrides."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.config import folders, overrides, stream_checks, stream_columns
from sluice.config.folders import VARIABLE
from sluice.config.reading.files import Stamp, declared_text, stamp_of
from sluice.config.reading.toml import ConfigError, build, toml
from sluice.config.reading.values import problems as value_problems
from sluice.config.reading.values import shown, shown_path
from sluice.config.stream import SourceType, StreamSpec

# A file that was changed within so many seconds may be changed again with the same stamp.
SETTLED_SECONDS = 2.0
# Folder and file of overrides -> the stamps of what was read, and the stream. For the observer and the pages,
# which would read the declarations of hundreds of streams every few seconds.
_read: dict[tuple[Path, str], tuple[tuple[Stamp, ...], StreamSpec]] = {}


def names(environ: Mapping[str, str] = os.environ) -> list[str]:
    """All streams, also invalid ones. Never raises."""
    return sorted(folders.find(environ).streams)


def load_all() -> list[StreamSpec]:
    """All streams. Raises ConfigError for an invalid one: for what must not leave one out."""
    return [load(name) for name in names()]


@dataclass(frozen=True)
class Declared:
    """The valid streams, and of each invalid one the reason. ``problems``: what is wrong with no stream to
    name."""

    specs: Sequence[StreamSpec] = ()
    invalid: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()

    @property
    def reasons(self) -> list[str]:
        """All that is wrong, a line each."""
        return [*(f"{name}: {reason}" for name, reason in self.invalid.items()), *self.problems]


def load_valid() -> Declared:
    """All streams; an invalid one does not affect the others. Never raises."""
    specs, invalid = [], {}
    for name in names():
        try:
            specs.append(load(name))
        except ConfigError as error:
            invalid[name] = str(error)
    return Declared(specs, invalid, problems(specs))


def problems(specs: Sequence[StreamSpec], environ: Mapping[str, str] = os.environ) -> list[str]:
    """What is wrong with the folders and overrides as a whole, or between two of the streams ``specs``; each
    of them runs nevertheless."""
    found, file = folders.find(environ), environ.get(overrides.VARIABLE, "")
    shared: dict[str, list[str]] = defaultdict(list)
    for spec in specs:
        for name in {*stream_checks.tables(spec), *stream_checks.own_topics(spec)}:
            shared[name].append(spec.name)
    return [
        *found.problems,
        *(overrides.problems(file, sorted(found.streams)) if file else []),
        *(
            f"streams {', '.join(users)}: each declares {name}. Fix: give each its own"
            for name, users in sorted(shared.items())
            if len(users) > 1
        ),
    ]


def load(name: str, environ: Mapping[str, str] = os.environ) -> StreamSpec:
    """The stream with this installation's overrides, read again when its files have changed. Raises
    ConfigError if it is unknown or invalid, for whatever reason."""
    try:
        return _load(name, environ)
    except ConfigError:
        raise
    # What a declaration may hold has no limit: whatever else goes wrong is its own stream's too.
    except Exception as error:
        raise ConfigError(
            f"stream {shown(name)}: its declaration cannot be checked: {type(error).__name__}: "
            f"{shown(str(error))}. Fix: remove what was changed last; report this"
        ) from error


def _load(name: str, environ: Mapping[str, str]) -> StreamSpec:
    found = folders.of_stream(name, environ)
    if not found:
        known = ", ".join(names(environ)) or "(none)"
        raise ConfigError(
            f"stream {shown(name)} is unknown; streams are {known}. Fix: name one of these, or add its "
            f"folder to {VARIABLE}"
        )
    if len(found) > 1:
        places = " and in ".join(map(shown_path, found))
        raise ConfigError(f"stream {name!r} is in {places}. Fix: rename or remove one")
    (folder,) = found
    file = environ.get(overrides.VARIABLE, "")
    stamp = (*folders.stamp(folder), *([stamp_of(file)] if file else []))
    earlier = _read.get((folder, file))
    if earlier is not None and earlier[0] == stamp:
        return earlier[1]
    spec = _read_folder(folder, file, name)
    if _is_settled(stamp):
        _read[folder, file] = stamp, spec
    else:
        _read.pop((folder, file), None)
    return spec


def _is_settled(stamp: Iterable[Stamp]) -> bool:
    newest = max((max(one.modified, one.changed) for one in stamp), default=0)
    return time.time_ns() - newest > SETTLED_SECONDS * 1e9


def _read_folder(folder: Path, file: str, name: str) -> StreamSpec:
    path = folder / folders.FILE
    overriding = overrides.of_stream(file, name) if file else None
    spec = parse(declared_text(path), shown_path(path), overriding, file)
    if spec.name != name:
        raise ConfigError(
            f"{shown_path(path)}: name is {shown(spec.name)}; the folder's is {name!r}. Fix: give both "
            "the same name"
        )
    stream_columns.check(spec, folder / spec.schema)
    return spec


def parse(text: str, where: str, overriding: Mapping[str, Any] | None = None, of: str = "") -> StreamSpec:
    """``overriding``: other values, of the file ``of``. Raises ConfigError naming ``where`` and ``of``."""
    declared = toml(text, where)
    for problem in value_problems(declared):
        raise ConfigError(f"{where}: {problem}")
    if overriding:
        declared, where = overrides.merge(declared, overriding), f"{where} with {of}"
    spec = build(StreamSpec, declared, where)
    sources = [source for source in SourceType if source in declared and source is not SourceType.TOPIC]
    if sources and not spec.topic.managed:
        raise ConfigError(
            f"{where}: [{sources[0]}] and [topic] managed = false: others fill the topic, and a stream has "
            "one source. Fix: keep one"
        )
    if len(sources) > 1:
        raise ConfigError(
            f"{where}: [{sources[0]}] and [{sources[1]}]: a stream has one source. Fix: keep one"
        )
    stream_checks.check(spec, where)
    return spec
