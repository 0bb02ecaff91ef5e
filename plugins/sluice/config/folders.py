"""Where streams are declared: a folder with a stream.toml each, in spark_jobs and SLUICE_STREAMS."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.config.reading.files import Stamp, stamp_of
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX
from sluice.config.reading.values import shown_path


def _jobs() -> Path:
    """The folder of the jobs: the checkout's, an image's, or in site-packages; found without its import.

    Raises ModuleNotFoundError if it is not on the path.
    """
    found = importlib.util.find_spec("spark_jobs")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(
            "spark_jobs is not beside sluice. Fix: install the package, or put both on PYTHONPATH"
        )
    return Path(found.origin).parent


STREAMS = _jobs()
# Further folders with streams in them, separated as in PATH.
VARIABLE = "SLUICE_STREAMS"
FILE = "stream.toml"


@dataclass(frozen=True)
class Folders:
    """``streams``: name -> its folders; a stream with two of them is invalid. ``problems``: of roots and of
    folders that no stream can have."""

    streams: Mapping[str, Sequence[Path]]
    problems: Sequence[str]


def find(environ: Mapping[str, str] = os.environ) -> Folders:
    """Never raises: one folder does not affect the streams of the others."""
    streams: dict[str, list[Path]] = {}
    problems = []
    for root in _roots(environ):
        try:
            paths = sorted(Path(root).iterdir())
        # ValueError: a NUL character in the path.
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            problems.append(
                f"{VARIABLE}: {shown_path(root)}: {reason}. Fix: correct the path, or set the variable empty"
            )
            continue
        for path in paths:
            # Editors and notebooks have hidden folders of their own.
            if path.name.startswith(".") or not _has_declaration(path):
                continue
            if IDENTIFIER.fullmatch(path.name):
                streams.setdefault(path.name, []).append(path)
            else:
                problems.append(
                    f"{shown_path(path)} has a {FILE}, and no stream can have that name. {IDENTIFIER_FIX}"
                )
    return Folders(streams, problems)


def of_stream(name: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders of one stream, as :func:`find` has them, without a look at those of others."""
    if not IDENTIFIER.fullmatch(name):
        return []
    return [folder for root in _roots(environ) if _has_declaration(folder := Path(root) / name)]


def stamp(folder: Path) -> tuple[Stamp, ...]:
    """Another one when a file of a stream's folder was added, removed, replaced or changed."""
    found = []
    for root, below, names in os.walk(folder):
        # Python's own files, which change when a stream runs.
        below[:] = sorted(one for one in below if one != "__pycache__")
        found += [stamp_of(f"{root}/{name}") for name in sorted(names)]
    return tuple(found)


def _roots(environ: Mapping[str, str]) -> list[str]:
    given = filter(None, environ.get(VARIABLE, "").split(os.pathsep))
    # A root that is named twice is one.
    return list({os.path.realpath(root): root for root in (str(STREAMS), *given)}.values())


def _has_declaration(folder: Path) -> bool:
    """Also one that cannot be read: it makes the stream invalid."""
    try:
        (folder / FILE).lstat()
    # ValueError: a NUL character in the path.
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True
