"""`sluice new-stream`: a stream's folder that is valid as it is, for a person to change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from uuid import uuid4

from sluice.cli.base import UsageError
from sluice.config import folders, streams
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError

TEMPLATES = files("sluice.cli") / "templates"
KINDS = ("csv", "generator", "feed")
# Templates of modules have it, so that they are no modules.
_SUFFIX = ".txt"
NEXT = {
    "csv": "Next: write the columns of your files into schema.avsc",
    "generator": "Next: write the columns into schema.ddl, and generator.py and transforms.py for them",
    "feed": "Next: put the feed's address into stream.toml, and write schema.ddl, events.py, transforms.py",
}


def main(name: str, kind: str, root: Path | None, environ: Mapping[str, str] = os.environ) -> int:
    """Write the folder below `root`, by default that of SLUICE_STREAMS; print what to do next.

    Raises UsageError for an unknown kind, a name that no stream can have, and a folder that exists.
    """
    if kind not in KINDS:
        raise UsageError(f"--kind {kind} is none. Fix: give one of {', '.join(KINDS)}")
    if not IDENTIFIER.fullmatch(name):
        raise UsageError(f"no stream can be named {name!r}. {IDENTIFIER_FIX}")
    root = root or _given(environ)
    folder = root / name
    if folder.exists() or name in streams.names(environ):
        raise UsageError(f"stream {name} exists ({folder}). Fix: give another name, or change that one")
    folder.mkdir(parents=True)
    try:
        _write(folder, name, kind)
        streams.load(name, _with(root, environ))
    except (ConfigError, OSError) as error:
        shutil.rmtree(folder)
        raise UsageError(f"{folder} was not written: {error}") from error
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    print(f"{NEXT[kind]}; then docs/adding-a-stream.md, from step 1.")
    return 0


def _given(environ: Mapping[str, str]) -> Path:
    given = [root for root in environ.get(folders.VARIABLE, "").split(os.pathsep) if root]
    if not given:
        raise UsageError(
            f"there is no folder of streams. Fix: give --into FOLDER, and set {folders.VARIABLE} to it"
        )
    return Path(given[0])


def _with(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    given = environ.get(folders.VARIABLE, "")
    return {**environ, folders.VARIABLE: os.pathsep.join(filter(None, [given, str(root)]))}


def _write(folder: Path, name: str, kind: str) -> None:
    values = {
        "name": name,
        "topic": name.replace("_", "-"),
        "record": "".join(part.capitalize() for part in name.split("_")),
        "uuid": str(uuid4()),
    }
    for template in (TEMPLATES / kind).iterdir():
        text = Template(template.read_text()).substitute(values)
        (folder / template.name.removesuffix(_SUFFIX)).write_text(text)
    if any(path.suffix == ".py" for path in folder.iterdir()):
        (folder / "__init__.py").touch()
