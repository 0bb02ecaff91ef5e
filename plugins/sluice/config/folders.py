"""Where streams are declared: a folder with a stream.toml each, in spark_jobs and SLUICE_STREAMS."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    given = filter(None, environ.get(VARIABLE, "").split(os.pathsep))
    # A root that is named twice is one.
    for root in {os.path.realpath(root): root for root in (str(STREAMS), *given)}.values():
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


def _has_declaration(folder: Path) -> bool:
    """Also one that cannot be read: it makes the stream invalid."""
    try:
        (folder / FILE).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
