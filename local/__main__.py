"""`python -m local <verb>`: sets up what is missing, then runs the verb inside the environment.

Standard library only: this is what runs on a machine where nothing is set up yet.
"""

from __future__ import annotations

import os
import subprocess
import sys

from local.base import REPO, UsageError, end_with

# Asking a running stack or stopping it must work at once, and also when an artifact is damaged.
WITHOUT_SETUP = ("down", "status", "logs", "sql", "destroy", "help")


def main(arguments: list[str]) -> int:
    if sys.version_info[:2] not in ((3, 11), (3, 12)):
        raise UsageError(
            f"this is Python {sys.version.split()[0]}, and Sluice needs 3.11 or 3.12: use local/run"
        )
    from local.setup import bootstrap
    from local.setup.cache import MANIFEST, environment

    verb = arguments[0] if arguments else "help"
    env_python = environment().path / "bin" / "python"
    if verb == "help":
        from local.base import usage

        print(usage())
        return 0
    if verb not in WITHOUT_SETUP:
        tools = bootstrap.ensure_tools()
        done = subprocess.run(
            [str(tools), "-m", "local.setup", *(arguments if verb in ("setup", "lock") else [])]
        )
        if done.returncode != 0 or verb in ("setup", "lock"):
            return done.returncode
    elif not (environment().path / MANIFEST).exists():
        # Also where a set-up was interrupted: half an environment could not even say so.
        print(f"sluice: nothing is set up yet, so there is nothing to do for {verb!r} (make setup)")
        return 0
    search = os.pathsep.join([str(REPO / "plugins"), str(REPO)])
    command = [str(env_python), "-m", "local.cli", *arguments]
    # In our place, so that signals and the exit code need nobody in between.
    os.execve(env_python, command, {**os.environ, "PYTHONPATH": search})  # noqa: S606
    raise AssertionError("execve does not return")


if __name__ == "__main__":
    end_with(main)
