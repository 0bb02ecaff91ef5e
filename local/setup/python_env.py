"""The Python environment: uv, from the compiled requirements with their hashes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from local import shell
from local.progress import Step
from local.setup.targets import REQUIREMENTS


def make_python_environment(folder: Path, work: Path, step: Step) -> None:
    """Fills `folder`. It is the final place, since the scripts in `bin` hold their interpreter's path.

    Raises Problem when uv fails. uv's own cache lies in `work`: an interrupted run goes on from there.
    """
    uv = Path(sys.executable).with_name("uv")
    log = work / "env.log"
    # Without this, uv would take a project's or an activated environment's settings for ours.
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    env |= {"UV_CACHE_DIR": str(work / "uv"), "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    base = str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))
    shell.run([uv, "venv", "--no-project", "--python", base, folder], step, log, env)
    shell.run(
        [
            uv,
            "pip",
            "sync",
            "--require-hashes",
            "--compile-bytecode",
            "--python",
            folder / "bin/python",
            REQUIREMENTS,
        ],
        step,
        log,
        env,
    )
