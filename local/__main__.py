"""`python -m local <command>`: set up what is missing, then run the command inside the environment.

Standard library only: it runs on a machine where nothing is set up yet.
"""

from __future__ import annotations

import os
import subprocess
import sys

from local.base import REPO, UsageError, exit_code

# These must work at once, and also if an artifact is damaged.
WITHOUT_SETUP = ("down", "status", "logs", "sql", "batches", "trace", "destroy", "help")
HELP = ("help", "--help", "-h")
BEFORE_SETUP = """\
Usage: local/run COMMAND [ARGUMENT...]

Nothing is set up yet, so the commands of the environment cannot be listed. These work now:

  local/run demo     fetch and build what is missing, start the stack, load taxi rides, show the proof
  local/run up       the same without a load
  local/run setup    only fetch and build
  local/run test     lint, types and all tests

Afterwards local/run --help lists all commands, and local/run COMMAND --help the options of one.
README.md says what the machine needs."""


def main(arguments: list[str]) -> int:
    if sys.version_info[:2] not in ((3, 11), (3, 12)):
        raise UsageError(f"Python is {sys.version.split()[0]}; Sluice needs 3.11 or 3.12. Fix: use local/run")
    from local.setup import bootstrap
    from local.setup.cache import MANIFEST, environment

    command = arguments[0] if arguments else "help"
    env_python = environment().path / "bin" / "python"
    is_help = command in HELP or arguments[1:] == ["--help"]
    if not is_help:
        code = _without_setup(command, arguments[1:])
        if code is not None:
            return code
    if command not in WITHOUT_SETUP and not is_help:
        tools = bootstrap.ensure_tools()
        done = subprocess.run(
            [str(tools), "-m", "local.setup", *(arguments if command in ("setup", "lock") else [])]
        )
        if done.returncode != 0 or command in ("setup", "lock"):
            return done.returncode
    # Also after an interrupted set-up, with an incomplete environment.
    elif not (environment().path / MANIFEST).exists():
        nothing = f"sluice: nothing is set up yet, so {command!r} has nothing to do (make setup)"
        print(BEFORE_SETUP if is_help else nothing)
        return 0
    if command in HELP:
        arguments = ["--help"]
    search = os.pathsep.join([str(REPO / "plugins"), str(REPO)])
    argv = [str(env_python), "-m", "sluice.cli.app", *arguments]
    # In this process, so that signals and the exit code need no forwarding.
    os.execve(  # noqa: S606
        env_python, argv, {**os.environ, "PYTHONPATH": search, "SLUICE_COMMANDS": "local.commands"}
    )
    raise AssertionError("execve does not return")


def _without_setup(command: str, arguments: list[str]) -> int | None:
    """Generate passwords: the images contain everything else. None if that is not what is asked for."""
    if command == "compose-env":
        from local.containers import env_file

        return env_file.main(arguments)
    if command == "k8s-render" and arguments[:1] == ["passwords"]:
        from local.kubernetes import passwords

        return passwords.main(arguments[1:])
    return None


if __name__ == "__main__":
    sys.exit(exit_code(main))
