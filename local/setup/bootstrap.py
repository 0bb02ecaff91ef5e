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
    """Makes the tools environment if need be; gives its Python.

    Raises SetupError when the machine lacks `ensurepip` and it cannot be installed, or when pip fails.
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
    """Installs a package of the distribution when root on Debian or Ubuntu.

    Raises SetupError with the one line that the person must run otherwise.
    """
    debian = Path("/etc/debian_version").exists()
    if os.geteuid() != 0 or not debian:
        mend = f"sudo apt-get install -y {package}" if debian else f"install what Debian calls {package}"
        raise SetupError(f"{why}. Run: {mend}")
    _say(f"{why}: installing {package}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], env)
    _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], env)


def _run(argv: list[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise SetupError(f"`{' '.join(argv[:4])} …` ended with {done.returncode}: its output is above")


def _say(text: str) -> None:
    print(f"sluice: {text}", file=sys.stderr, flush=True)


ACCEPTED = ("17", "21")
PACKAGE = "openjdk-17-jre-headless"


def parse(settings: str) -> tuple[str, str]:
    """Major version and home out of what `java -XshowSettings:properties -version` prints.

    Raises SetupError when either is not in it.
    """
    version = re.search(r"^\s*java\.specification\.version = (\S+)", settings, re.M)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.M)
    if version is None or home is None:
        raise SetupError(f"java does not tell its version and home but: {settings.strip()[:200]!r}")
    return version[1], home[1]


def java_home(install: bool = False) -> Path:
    """The home of the Java to use: `JAVA_HOME`'s, else the one on PATH; with `install` else from apt.

    Raises SetupError naming the version found and the mend.
    """
    given = os.environ.get("JAVA_HOME")
    command = str(Path(given, "bin", "java")) if given else shutil.which("java")
    why = "no java on PATH and JAVA_HOME is not set"
    if command:
        try:
            asked = subprocess.run(
                [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=True
            )
            version, home = parse(asked.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SetupError(f"{command} does not run ({error}); unset or mend JAVA_HOME") from error
        if version in ACCEPTED:
            return Path(home)
        why = f"{command} is Java {version}, and Sluice needs 17 or 21"
        if given:
            raise SetupError(f"{why}; set JAVA_HOME to such a one, or unset it")
    packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))
    if not packaged and install:
        apt_install(PACKAGE, why=why)
        packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))
    if not packaged:
        raise SetupError(f"{why}. Run: sudo apt-get install -y {PACKAGE}")
    return packaged[0]
