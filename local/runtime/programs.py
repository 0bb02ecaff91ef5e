"""supervisord's configuration, rendered from plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local.errors import Problem
from local.runtime.ports import HOST


@dataclass(frozen=True)
class Program:
    """One supervised program.

    `priority`: lower starts first and stops last. `options` are further keys of its section. Nothing starts
    by itself: `make up` starts services in the order of what they need, Airflow starts the streams.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    priority: int
    directory: Path
    options: Mapping[str, str] = field(default_factory=dict)


# A component of a stream: stopped gracefully through its parent process (sluice.runtime.parent) and its
# Python, since a JVM that gets the signal too would die under the query that is being ended.
STREAM_OPTIONS = {
    # The parent process restarts the component. A parent process that was killed is restarted itself: its
    # component was killed with it. These are its own ends: stopped, failed, fenced, configuration.
    "autorestart": "unexpected",
    "exitcodes": "0,1,2,76,78",
    # What the component writes is on stdout, the parent process's reports on stderr. That log is not rotated
    # (it grows by 1 KB per restart): supervisord rotates after a write, and the newest report would be gone.
    "redirect_stderr": "false",
    "stderr_logfile_maxbytes": "0",
    # 0: supervisord tries again, whatever autorestart says, what ends sooner, and forgets its exit status.
    "startsecs": "0",
    "startretries": "0",
    "stopsignal": "TERM",
    "stopasgroup": "false",
    "killasgroup": "true",
    # Then it is killed, which loses nothing: what was not published is read again. Longer than a usual batch,
    # and short, because a hung one that is to be restarted never ends by itself.
    "stopwaitsecs": "10",
}
SERVICE_OPTIONS = {
    "autorestart": "true",
    "startsecs": "2",
    "startretries": "5",
    "stopsignal": "TERM",
    "stopasgroup": "false",
    "killasgroup": "true",
    "stopwaitsecs": "30",
}


def render(programs: Sequence[Program], root: Path, port: int, password: str) -> str:
    """supervisord.conf: the daemon, its loopback-only XML-RPC server, and one section per program."""
    logs = root / "logs"
    sections = [
        _section(
            "supervisord",
            {
                "logfile": _text(str(logs / "supervisord.log")),
                "logfile_maxbytes": "5MB",
                "logfile_backups": "2",
                "pidfile": _text(str(root / "supervisord.pid")),
                "childlogdir": _text(str(logs)),
                "minfds": "1024",
                "nocleanup": "true",
            },
        ),
        _section(
            "inet_http_server",
            {"port": f"{HOST}:{port}", "username": "sluice", "password": _text(password)},
        ),
        _section(
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
    ]
    for program in programs:
        log = {
            "stdout_logfile": _text(str(logs / f"{program.name}.log")),
            "stdout_logfile_maxbytes": "20MB",
            "stdout_logfile_backups": "2",
            "redirect_stderr": "true",
        }
        keys = {
            "command": _command(program.command),
            "directory": _text(str(program.directory)),
            "environment": ",".join(
                f"{name}={_quoted(value)}" for name, value in program.environment.items()
            ),
            "priority": str(program.priority),
            "autostart": "false",
            **log,
            **program.options,
        }
        if keys["redirect_stderr"] == "false":
            keys["stderr_logfile"] = _text(str(logs / f"{program.name}.restarts.log"))
        sections.append(_section(f"program:{program.name}", keys))
    return "\n".join(sections)


def _section(name: str, keys: Mapping[str, str]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def _text(value: str) -> str:
    """supervisord expands %(name)s in values, and takes ` ;` for a comment."""
    if "\n" in value or " ;" in value:
        raise Problem(
            f"{value!r} cannot stand in supervisord's configuration: use a path without ' ;' or line ends"
        )
    return value.replace("%", "%%")


def _quoted(value: str) -> str:
    """A value of `environment`: quoted with the quote that is not in it, since there is no escape."""
    quote = "'" if '"' in value else '"'
    if quote in value:
        raise Problem(
            f"a value with both kinds of quotes cannot be given through supervisord: {value[:40]!r}…"
        )
    return f"{quote}{_text(value)}{quote}"


def _command(argv: Sequence[str]) -> str:
    """supervisord splits the command as a shell would."""
    import shlex

    return _text(shlex.join(argv))
