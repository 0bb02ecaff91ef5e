"""Finds Java 17 or 21, or installs it where that is ours to do. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from local.errors import Problem
from local.setup.bootstrap import apt_install

ACCEPTED = ("17", "21")
PACKAGE = "openjdk-17-jre-headless"


def parse(settings: str) -> tuple[str, str]:
    """Major version and home out of what `java -XshowSettings:properties -version` prints.

    Raises Problem when either is not in it.
    """
    version = re.search(r"^\s*java\.specification\.version = (\S+)", settings, re.M)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.M)
    if version is None or home is None:
        raise Problem(f"java does not tell its version and home but: {settings.strip()[:200]!r}")
    return version[1], home[1]


def java_home(install: bool = False) -> Path:
    """The home of the Java to use: `JAVA_HOME`'s, else the one on PATH; with `install` else from apt.

    Raises Problem naming the version found and the mend.
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
            raise Problem(f"{command} does not run ({error}); unset or mend JAVA_HOME") from error
        if version in ACCEPTED:
            return Path(home)
        why = f"{command} is Java {version}, and Sluice needs 17 or 21"
        if given:
            raise Problem(f"{why}; set JAVA_HOME to such a one, or unset it")
    packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))
    if not packaged and install:
        apt_install(PACKAGE, why=why)
        packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))
    if not packaged:
        raise Problem(f"{why}. Run: sudo apt-get install -y {PACKAGE}")
    return packaged[0]
