"""Texts of ``.proto`` files into descriptors: by protoc, in a process of its own.

A text of a registry is not to be trusted, and the compiler is C++: what crashes it, or keeps it busy, ends a
process that has nothing else, with bounds of its own (``protoc_process``). No shell is asked, no file beside
the given ones, Google's well-known types and Confluent's can be imported, and the process has no environment.
"""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from sluice.config.reading.known_protos import CONFLUENT
from sluice.config.reading.protoc_process import MAX_SECONDS, MAX_WRITTEN, REFUSED
from sluice.core.decoding.protobuf.schema import MAX_FILES, NotCompiled, descriptor_of
from sluice.core.errors import Unreachable
from sluice.core.messages import quoted

# A process that does not end within its seconds of a processor waits for the machine.
_WAIT_SECONDS = 120
# The most of the compiler's words in a reason, in characters.
_MAX_SAID = 300
# The most of them that is read, in bytes: warnings may come first.
_MAX_READ = 1 << 20
# As protoc takes names of imports.
_NAME = re.compile(r"(?!.*//)(?!(.*/)?\.\.?(/|\Z))[A-Za-z0-9_.+-][A-Za-z0-9_.+/-]{0,199}")
# Warnings, and lines of its log.
_NO_ERROR = re.compile(r": warning: |^WARNING: |^[IWEF]\d{4} ")
_CRASHES = (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL)
_PROCESS = Path(__file__).with_name("protoc_process.py")


class CompilerFailed(Unreachable):
    """The compiler did not run, or the machine gave it no time: nothing is known of the schema."""


def compiled(files: Mapping[str, str], root: str) -> bytes:
    """The serialized FileDescriptorSet of the file ``root`` and of all that it imports.

    ``files``: the name by which a file is imported -> its text, or its FileDescriptorProto in base64, as
    Confluent's serializers of Python register it. Raises NotCompiled with the compiler's words for what is
    no schema or beyond a bound, and CompilerFailed.
    """
    found = _compiled(tuple(sorted(files.items())), root)
    if isinstance(found, str):
        raise NotCompiled(found)
    return found


# A worker process reads many pieces of a topic with the same few schemas.
@lru_cache(maxsize=64)
def _compiled(files: tuple[tuple[str, str], ...], root: str) -> bytes | str:
    """The descriptors, or why there are none."""
    if len(files) > MAX_FILES:
        return f"it has {len(files)} files, more than {MAX_FILES}"
    for name, _ in files:
        if not _NAME.fullmatch(name):
            return f"{quoted(name)} cannot be the name of a file"
    described, texts = FileDescriptorSet(), dict(CONFLUENT)
    for name, text in files:
        descriptor = descriptor_of(text)
        if descriptor is None:
            texts[name] = text
        else:
            # By the name under which others import it.
            descriptor.name = name
            texts.pop(name, None)
            described.file.append(descriptor)
    with tempfile.TemporaryDirectory(prefix="sluice-protoc-") as folder:
        return _run(Path(folder), described, texts, root)


def _run(folder: Path, described: FileDescriptorSet, texts: Mapping[str, str], root: str) -> bytes | str:
    package = _folder("grpc_tools")
    sources, out, log = folder / "sources", folder / "out", folder / "log"
    sources.mkdir()
    for name, text in texts.items():
        file = sources / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            return f"{quoted(name)} is a file, and a folder of another one"
        except UnicodeEncodeError as error:
            return f"{quoted(name)} is not UTF-8: {error.reason}"
    arguments = [f"-I{sources}", f"-I{package / '_proto'}", f"-Igoogle/type={_folder('google.type')}"]
    arguments.append("--include_imports")
    if described.file:
        given = folder / "given"
        given.write_bytes(described.SerializeToString())
        arguments.append(f"--descriptor_set_in={given}")
    command = [sys.executable, "-I", "-S", str(_PROCESS), str(package.parent)]
    try:
        # A file has the process's bound: each error may name what is as long as the text.
        with log.open("wb") as errors:
            ended = subprocess.run(
                [*command, *arguments, f"--descriptor_set_out={out}", root],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=folder,
                env={},
                timeout=_WAIT_SECONDS,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise CompilerFailed(f"the compiler of .proto files did not end in {_WAIT_SECONDS} s") from error
    if ended.returncode == -signal.SIGXCPU:
        return f"its compilation takes more than {MAX_SECONDS} seconds of a processor"
    with log.open("rb") as errors:
        said = errors.read(_MAX_READ).decode(errors="replace").replace(f"{sources}/", "")
    if ended.returncode == -signal.SIGXFSZ:
        return f"its compilation writes more than {MAX_WRITTEN >> 20} MiB: {_words(said)}"
    if ended.returncode == REFUSED:
        return _words(said)
    # Its own errors: of its stack, and of its memory.
    if ended.returncode in _CRASHES:
        return f"its compilation ends with {signal.Signals(-ended.returncode).name}"
    if ended.returncode:
        last = quoted(said.strip().rpartition("\n")[2])
        raise CompilerFailed(
            f"the compiler of .proto files ended with {ended.returncode}: {last}. Fix: install the packages "
            "of requirements.txt; where memory is short, give the process more"
        )
    content = out.read_bytes()
    try:
        FileDescriptorSet.FromString(content)
    except DecodeError as error:
        return f"its descriptors cannot be read: {error}"
    return content


def _folder(package: str) -> Path:
    """A package's folder. It is not imported here: so the compiler is not in this process."""
    found = importlib.util.find_spec(package)
    folders = None if found is None else found.submodule_search_locations
    if not folders:
        raise ModuleNotFoundError(f"{package} is missing, which compiles .proto files: see requirements.txt")
    return Path(next(iter(folders)))


def _words(said: str) -> str:
    """The compiler's errors, in one line; its warnings are of no use here."""
    lines = [line for line in said.splitlines() if line and not _NO_ERROR.search(line)]
    whole = "; ".join(lines)
    return f"{whole[:_MAX_SAID]}…" if len(whole) > _MAX_SAID else whole
