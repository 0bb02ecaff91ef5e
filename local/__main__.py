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


def main(arguments: list[str]) -> int:
    if sys.version_info[:2] not in ((3, 11), (3, 12)):
        raise UsageError(f"Python is {sys.version.split()[0]}; Sluice needs 3.11 or 3.12. Fix: use local/run")
    from local.setup import bootstrap
    from local.setup.cache import MANIFEST, environment

    command = arguments[0] if arguments else "help"
    env_python = environment().path / "bin" / "python"
    if command == "help":
        from local.commands import usage

        print(usage())
        return 0
    if command in ("compose-env", "k8s-render"):
        code = _without_setup(command, arguments[1:])
        if code is not None:
            return code
    if command not in WITHOUT_SETUP:
        tools = bootstrap.ensure_tools()
        done = subprocess.run(
            [str(tools), "-m", "local.setup", *(arguments if command in ("setup", "lock") else [])]
        )
        if done.returncode != 0 or command in ("setup", "lock"):
            return done.returncode
    elif not (environment().path / MANIFEST).exists():
        # Also after an interrupted set-up, with an incomplete environment.
        print(f"sluice: nothing is set up yet, so {command!r} has nothing to do (make setup)")
        return 0
    search = os.pathsep.join([str(REPO / "plugins"), str(REPO)])
    argv = [str(env_python), "-m", "local.cli", *arguments]
    # In this process, so that signals and the exit code need no forwarding.
    os.execve(env_python, argv, {**os.environ, "PYTHONPATH": search})  # noqa: S606
    raise AssertionError("execve does not return")


def _without_setup(command: str, arguments: list[str]) -> int | None:
    """Generate passwords: the images contain everything else. None if that is not what is asked for."""
    sys.path.insert(0, str(REPO / "plugins"))
    from local.checks import arguments_given

    given = [*arguments_given(), *arguments]
    if command == "compose-env":
        from local.containers import env_file

        return env_file.main(given)
    if given[:1] == ["passwords"]:
        from local.kubernetes import passwords

        return passwords.main(given[1:])
    return None


if __name__ == "__main__":
    sys.exit(exit_code(main))
