"""`sluice new-stream`: a stream's folder that is valid as it is, for a person to change."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING
from uuid import uuid4

from sluice.cli.base import UsageError
from sluice.cli.topics.columns import column_beside
from sluice.config import folders, streams
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError, dump
from sluice.core.csv.form import is_csv
from sluice.core.messages import counted

if TYPE_CHECKING:
    from sluice.cli.topics.look import FoundTopic
    from sluice.core.csv.inferred_types import Inferred
    from sluice.core.decoding.sample import Guess

TEMPLATES = files("sluice.cli") / "templates"
KINDS = ("csv", "generator", "feed", "topic")
# Columns of a CSV stream of no file.
EXAMPLE = {"id": "STRING", "happened_at": "TIMESTAMP_NTZ", "amount": "DOUBLE"}
SAMPLE_READ = 64 * 1024
_PROTOBUF = "protobuf"
# Templates of modules have it, so that they are no modules.
_SUFFIX = ".txt"
CORRECT = "A type never changes once the stream has loaded: correct its schema and stream.toml before."
# What a stream has beside its load and its changes.
PAUSED = ("stream", "maintenance", "reconciliation")
NEXT = {
    "csv": "Next: write the columns of your files into schema.ddl",
    "generator": "Next: write the columns into schema.ddl, and generator.py and transforms.py for them",
    "topic": "Next: name the topic in stream.toml, and write the columns of its records into schema.ddl",
    "feed": "Next: put the feed's address into stream.toml, and write schema.ddl, events.py, transforms.py",
}


def main(
    name: str,
    kind: str,
    root: Path,
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
    found: FoundTopic | None = None,
) -> Sequence[str]:
    """Write the folder below `root`, and print what it says; return what is unsure of it.

    `file`: a CSV file, of which columns and `[csv]` are inferred. `found`: of kind `topic`, the topic that
    was looked at. Raises UsageError for an unknown kind, a name that no stream can have, a folder that
    exists, and a file of which nothing can be inferred.
    """
    if kind not in KINDS:
        raise UsageError(f"--kind {kind} is none. Fix: give one of {', '.join(KINDS)}")
    if not IDENTIFIER.fullmatch(name):
        raise UsageError(f"no stream can be named {name!r}. {IDENTIFIER_FIX}")
    folder = root / name
    if folder.exists() or name in streams.names(environ):
        raise UsageError(f"stream {name} exists ({folder}). Fix: give another name, or change that one")
    inferred = _inferred(file, kind) if file else None
    folder.mkdir(parents=True)
    try:
        _write(folder, name, kind, inferred, found)
        streams.load(name, _with(root, environ))
    except (ConfigError, OSError) as error:
        shutil.rmtree(folder)
        raise UsageError(f"{folder} was not written: {error}") from error
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
    if found is not None:
        _print_found(found)
        return found.doubts
    if inferred is None:
        print(f"{NEXT[kind]}; then docs/adding-a-stream.md, from step 1.")
        return []
    print(f"{counted(len(inferred.columns), 'column')}, by {counted(inferred.rows, 'row')} of {file}:")
    width = max(map(len, inferred.columns))
    for column, ddl in inferred.columns.items():
        print(f"  {column:{width}}  {ddl}")
    if inferred.declared:
        print("[csv]")
        for line in dump(inferred.declared).splitlines():
            print(f"  {line}")
    for doubt in inferred.doubts:
        print(f"unsure: {doubt}")
    if inferred.doubts:
        print(CORRECT)
    return inferred.doubts


def _print_found(found: FoundTopic) -> None:
    for line in found.seen:
        print(f"{found.name}: {line}")
    guess = found.guess
    print(f"values seem to be {guess.format}, keys {guess.key or '(none)'}:")
    width = max(map(len, guess.columns), default=0)
    for column, ddl in guess.columns.items():
        print(f"  {column:{width}}  {ddl}")
    for doubt in found.doubts:
        print(f"unsure: {doubt}")
    print(CORRECT)


def key_of(name: str, file: Path) -> str:
    """The key under which a stream loads a file: as the file is named, with an ending that says CSV."""
    return f"{name}/{file.name}" if is_csv(file.name) else f"{name}/{file.name}.csv"


def _inferred(file: Path, kind: str) -> Inferred:
    # With NumPy and Arrow.
    from sluice.clients.s3.unpacking import UNPACKING_ERRORS, OtherFormat, unpacked
    from sluice.core.csv.inference import NotInferred, infer

    if kind != "csv":
        raise UsageError(
            f"--from with --kind {kind}: only of a CSV file columns are inferred. Fix: leave out one"
        )
    path = file.expanduser()
    try:
        with path.open("rb", buffering=0) as body:
            return infer(unpacked(body, SAMPLE_READ))
    except (NotInferred, OtherFormat) as error:
        raise UsageError(f"{file}: {error}") from error
    except UNPACKING_ERRORS as error:
        raise UsageError(f"{file}: truncated or corrupt ({error}). Fix: give the whole file") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}. Fix: give the path of a CSV file") from error


def root_of(into: Path | None, usual: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of new streams: that of the option, else the first of SLUICE_STREAMS, else the `usual` one.

    Raises UsageError without any.
    """
    given = _given(environ)
    root = into or (Path(given[0]) if given else usual)
    if root is None:
        raise UsageError(
            f"there is no folder of streams. Fix: give --into FOLDER, and set {folders.VARIABLE} to it"
        )
    return root


def steps_to_know(root: Path, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The command after which processes find the streams of a folder; none if they do."""
    given = _given(environ)
    if os.path.realpath(root) in map(os.path.realpath, [str(folders.STREAMS), *given]):
        return []
    named = os.pathsep.join([*given, str(root.absolute())])
    return [f"export {folders.VARIABLE}={shlex.quote(named)}"]


def steps_to_load(program: str, name: str, file: Path) -> list[str]:
    """The commands that upload a file and load it."""
    words = shlex.join([str(file), key_of(name, file)])
    return [f"{program} put {words}", f"{program} load {name} --unpause"]


def print_paused(name: str, airflow: str) -> None:
    """Say which DAGs of a new stream do nothing yet; `airflow`: how its command line is called, or empty."""
    paused = [f"{name}_{dag}" for dag in PAUSED]
    how = f"{airflow} dags unpause {paused[0]}, and so on" if airflow else "unpause them in Airflow"
    print(f"Still paused: {', '.join(paused)} (supervision, clean-up, comparison): {how}.")


def _given(environ: Mapping[str, str]) -> list[str]:
    return [root for root in environ.get(folders.VARIABLE, "").split(os.pathsep) if root]


def _with(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    return {**environ, folders.VARIABLE: os.pathsep.join([*_given(environ), str(root)])}


def _write(folder: Path, name: str, kind: str, inferred: Inferred | None, found: FoundTopic | None) -> None:
    columns = inferred.columns if inferred else found.guess.columns if found else EXAMPLE
    schema = found.guess.schema if found else ""
    declared = inferred.declared if inferred else {}
    values = {
        "columns": "".join(f"{column} {ddl}\n" for column, ddl in columns.items()),
        "csv": dump(declared).replace("\n\n", "\n") if declared else "",
        "name": name,
        "topic": found.name if found else name.replace("_", "-"),
        "schema": _schema_line(columns, found.guess if found else None),
        "registry": _registry_lines(found.guess) if found and found.guess.is_registered else "",
        "format": found.guess.format if found else "json",
        "key": _key_lines(found.guess) if found and found.guess.key else "",
        "headers": _headers_line(found.guess if found else None),
        "versions": str(found.versions_per_batch if found else 20),
        "record": "".join(part.capitalize() for part in name.split("_")),
        "uuid": str(uuid4()),
    }
    for template in (TEMPLATES / kind).iterdir():
        if template.name == "schema.ddl" and (schema or not columns):
            continue
        text = Template(_without_defaults(template.read_text(), declared)).substitute(values)
        (folder / template.name.removesuffix(_SUFFIX)).write_text(text)
    if found and schema:
        _write_schema(folder, found.guess)
    if any(path.suffix == ".py" for path in folder.iterdir()):
        (folder / "__init__.py").touch()


def _write_schema(folder: Path, guess: Guess) -> None:
    """The schema of a registry, with what it imports: each a file below the folder."""
    if guess.format != _PROTOBUF:
        (folder / "schema.avsc").write_text(json.dumps(json.loads(guess.schema), indent=2) + "\n")
        return
    for name, text in {**guess.imports, "schema.proto": guess.schema}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _without_defaults(template: str, declared: Mapping[str, object]) -> str:
    """A template without the comments that show the defaults of keys that are declared."""
    lines = template.splitlines(keepends=True)
    return "".join(line for line in lines if not any(line.startswith(f"# {key} = ") for key in declared))


def _schema_line(columns: Mapping[str, str], guess: Guess | None) -> str:
    """Empty for values that are one column without a schema."""
    if not columns:
        return ""
    of_registry = "proto" if guess and guess.format == _PROTOBUF else "avsc"
    ending = of_registry if guess and guess.schema else "ddl"
    return f'schema = "schema.{ending}"            # the columns of its values\n'


def _key_lines(guess: Guess) -> str:
    # Beside the columns of values.
    column = column_beside(guess.columns, "key")
    named = f'key_column = "{column}"\n' if column != "key" else ""
    return f'key = "{guess.key}"                      # the column {column}\n{named}'


def _headers_line(guess: Guess | None) -> str:
    if guess is None or not guess.has_headers:
        return '# headers = ""                    # a column for headers\n'
    return f'headers = "{column_beside(guess.columns, "headers")}"              # a column for them\n'


def _registry_lines(guess: Guess) -> str:
    message = f'message = "{guess.message}"\n' if guess.message else ""
    # Subjects of records are several schemas, which are no versions of one.
    follows = guess.format in ("avro", _PROTOBUF) and guess.subjects == "topic"
    columns = 'new_fields = "column"             # the table follows further versions\n' if follows else ""
    texts = 'recursive_fields = "json"         # a field that is inside of itself is a text of JSON\n'
    named = json.dumps([guess.other_subject])
    other = f"subjects = {named}       # another topic's\n" if guess.other_subject else ""
    more = f"{message}{other}{columns}{texts if guess.is_recursive else ''}"
    return f"registry = true                   # values begin with the id of their schema\n{more}"
