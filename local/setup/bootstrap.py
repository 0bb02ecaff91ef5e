"""The tools environment (uv, rich) and Java, on a bare machine (standard library only)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from local.base import REPO, SetupError, cache
from local.setup.cache import Artifact, fingerprint, locked, python_inputs

REQUIREMENTS = REPO / "local" / "bootstrap.txt"


def tools() -> Artifact:
    """The environment of the set-up itself."""
    key = fingerprint(REQUIREMENTS.read_bytes(), *python_inputs())
    return Artifact(cache(), "tools", key, hashed=False)


def ensure_tools() -> Path:
    """Make the tools environment if it is missing; give its Python.

    Raises SetupError if `ensurepip` is missing and cannot be installed, or if pip fails.
    """
    artifact = tools()
    if artifact.damage() is not None:
        with locked(cache(), _say):
            artifact.ensure(_make, _say, in_place=True)
    return artifact.path / "bin" / "python"


def _make(folder: Path) -> None:
    _say("preparing the set-up's own tools (uv, rich)")
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        apt_install(package, why=f"{sys.executable} has no ensurepip (package {package})")
    _run([sys.executable, "-m", "venv", str(folder)])
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-deps", "--require-hashes", "-r", str(REQUIREMENTS)])


def apt_install(package: str, why: str) -> None:
    """Install a package as root on Debian or Ubuntu. Otherwise raises SetupError with the command to run."""
    debian = Path("/etc/debian_version").exists()
    if os.geteuid() != 0 or not debian:
        fix = f"sudo apt-get install -y {package}" if debian else f"install what Debian calls {package}"
        raise SetupError(f"{why}. Fix: {fix}")
    _say(f"{why}: installing {package}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], env)
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], env)


def _run(argv: list[str], env: dict[str, str] | None = None) -> None:
    result = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.stderr.write(result.stdout)
        raise SetupError(f"`{' '.join(argv[:4])} …` ended with {result.returncode}: its output is above")


def _say(text: str) -> None:
    print(f"sluice: {text}", file=sys.stderr, flush=True)


ACCEPTED = ("17", "21")
PACKAGE = "openjdk-17-jre-headless"


def parse(settings: str) -> tuple[str, str]:
    """Major version and home in the output of `java -XshowSettings:properties -version`.

    Raises SetupError if one is missing.
    """
    version = re.search(r"^\s*java\.specification\.version = (\S+)", settings, re.M)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.M)
    if version is None or home is None:
        raise SetupError(f"java does not print its version and home, but {settings.strip()[:200]!r}")
    return version[1], home[1]


def java_home(install: bool = False) -> Path:
    """The home of the Java to use: `JAVA_HOME`'s, else the one on PATH; with `install` else from apt.

    Raises SetupError with the version found.
    """
    given = os.environ.get("JAVA_HOME")
    command = str(Path(given, "bin", "java")) if given else shutil.which("java")
    why = "no java on PATH and JAVA_HOME is not set"
    if command:
        try:
            result = subprocess.run(
                [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
            )
            version, home = parse(result.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SetupError(f"{command} does not run ({error}). Fix: unset or correct JAVA_HOME") from error
        if version in ACCEPTED:
            return Path(home)
        why = f"{command} is Java {version}, and Sluice needs 17 or 21"
        if given:
            raise SetupError(f"{why}. Fix: set JAVA_HOME to one of these, or unset it")
    packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))
    if not packaged and install:
        apt_install(PACKAGE, why=why)
        packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))
    if not packaged:
        raise SetupError(f"{why}. Fix: sudo apt-get install -y {PACKAGE}")
    return packaged[0]
