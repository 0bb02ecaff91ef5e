"""References: a text of a platform file that is elsewhere, as a password in a file of its own.

A reference is a table with one key in place of the text: ``{ file = "/run/secrets/kafka" }``,
``{ env = "NAME" }``, ``{ airflow_variable = "key" }`` or ``{ airflow_connection = "id" }``. It is followed
each time that the platform file is read. No message shows a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.config.reading import files
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.core.error_codes import ErrorCode

FILE, ENV, VARIABLE, CONNECTION, PART = "file", "env", "airflow_variable", "airflow_connection", "part"
KINDS = (FILE, ENV, VARIABLE, CONNECTION)
# What of a connection, the first one by default.
PARTS = ("password", "login", "host")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = 'write it as { file = "/run/secrets/name" }'

# A kind, a name and a part -> the text; None: there is none. Raises PermissionError if it is refused.
AirflowSecrets = Callable[[str, str, str], str | None]


class SecretNotFound(ConfigError):
    """What a reference names is not there, or cannot be used as it is: it may come, or be written just now.

    As a refused login it is tried again, and ends nothing for good.
    """

    code = ErrorCode.SECRET_NOT_FOUND


@dataclass(frozen=True)
class References:
    """With what a process follows references.

    ``environ``: its environment; None: os.environ. ``airflow``: Airflow's secrets backends; None: the process
    is none of Airflow's.
    """

    environ: Mapping[str, str] | None = None
    airflow: AirflowSecrets | None = None

    def text(self, reference: Mapping[str, Any], where: str, *, is_secret: bool) -> str:
        """What ``reference`` names. Raises SecretNotFound, and ConfigError for what is no reference, naming
        ``where`` and never a value.

        ``is_secret``: no other user may read its file.
        """
        kind, name = _checked(reference, where)
        if kind == FILE:
            return _one_line(_file(name, where, is_secret), f"{where}: file {name}")
        if kind == ENV:
            environ = os.environ if self.environ is None else self.environ
            if name not in environ:
                raise SecretNotFound(
                    f"{where}: environment variable {name} is not set. Fix: set it for this process, or name "
                    "another one"
                )
            return _one_line(environ[name], f"{where}: environment variable {name}")
        if self.airflow is None:
            raise ConfigError(
                f"{where}: {kind} {shown(name)} is known to Airflow's tasks, triggers and pages only, and "
                "this process is none of them. Fix: name a file or an environment variable"
            )
        try:
            found = self.airflow(kind, name, reference.get(PART, PARTS[0]))
        except PermissionError as error:
            raise SecretNotFound(
                f"{where}: {kind} {shown(name)}: Airflow refuses it to this process. Fix: let its team or "
                "role read it"
            ) from error
        if found is None:
            raise SecretNotFound(
                f"{where}: {kind} {shown(name)} not found. Fix: add it in Airflow under Admin or in its "
                "secrets backend; if it is there, this process's log says why the backend failed"
            )
        return _one_line(found, f"{where}: {kind} {shown(name)}")


def is_reference(value: Any, kind: str) -> bool:
    """Whether a value of TOML has the form of a reference of this kind."""
    return isinstance(value, Mapping) and list(value) == [kind] and isinstance(value[kind], str)


def named_files(document: Any) -> Iterator[str]:
    """The files to which a document of TOML refers."""
    if is_reference(document, FILE):
        yield document[FILE]
    elif isinstance(document, Mapping):
        for element in document.values():
            yield from named_files(element)


def _checked(reference: Mapping[str, Any], where: str) -> tuple[str, str]:
    kinds = [kind for kind in KINDS if kind in reference]
    allowed = {*kinds, *([PART] if CONNECTION in kinds else [])}
    if len(kinds) != 1 or set(reference) != allowed & set(reference):
        raise ConfigError(
            f"{where}: a reference with {shown(sorted(reference))}; it has one of {', '.join(KINDS)}, and "
            f"{PART} beside the last. Fix: {_EXAMPLE}"
        )
    (kind,) = kinds
    name = reference[kind]
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigError(f"{where}: {kind} of a reference is no name. Fix: {_EXAMPLE}")
    if kind == FILE and not name.startswith("/"):
        # Not shown, as the next one: it may be the secret itself.
        raise ConfigError(f"{where}: file of a reference is no absolute path. Fix: begin it with /")
    if kind == ENV and not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: env of a reference cannot be a variable's name. Fix: use letters, digits and _, no "
            "digit first"
        )
    if reference.get(PART, PARTS[0]) not in PARTS:
        raise ConfigError(f"{where}: {PART} is {shown(reference[PART])}. Fix: use one of {', '.join(PARTS)}")
    return kind, name


def _file(path: str, where: str, is_secret: bool) -> str:
    try:
        content, is_open = files.regular(path)
    except ConfigError as error:
        raise SecretNotFound(f"{where}: {error}") from error
    except OSError as error:
        raise SecretNotFound(
            f"{where}: file {path} cannot be read: {error.strerror}. Fix: put it there, readable for the "
            "user of this process"
        ) from error
    if is_secret and is_open:
        raise SecretNotFound(
            f"{where}: other users may read or change the file {path}. Fix: chmod 600 {path}, or mount it "
            "with mode 0400 (a Secret of Kubernetes: 0440)"
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        # Its own message shows a byte of the secret.
        raise SecretNotFound(f"{where}: file {path} is not UTF-8. Fix: save it as UTF-8") from None


def _one_line(text: str, where: str) -> str:
    """Without the newline at its end."""
    line = text.removesuffix("\n").removesuffix("\r")
    if not line:
        raise SecretNotFound(f"{where} is empty. Fix: put the value there")
    if "\n" in line or "\r" in line or "\0" in line:
        raise SecretNotFound(f"{where} has more than one line. Fix: leave the value alone there, in one line")
    return line
