"""Debian's packages for the node, unpacked and not installed: no service starts on the machine.

A mirror keeps only the newest version of a stable release, so that their versions cannot be pinned.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from local import shell
from local.base import SetupError, cache
from local.progress import Step
from local.setup.cache import Artifact, fingerprint
from tests.k8s.artifacts import Wanted

NAMES = (
    *("containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "busybox-static"),
    # Libraries that a small installation may not have.
    *("libip4tc2", "libip6tc2", "libmnl0", "libnetfilter-conntrack3", "libnfnetlink0", "libnftnl11"),
    *("libseccomp2", "libxtables12"),
)
# Names of one binary, which is the program that it is called by; Debian's alternatives would link them.
IPTABLES = tuple(f"{kind}{verb}" for kind in ("iptables", "ip6tables") for verb in ("", "-save", "-restore"))
XTABLES = "usr/sbin/xtables-nft-multi"


def packages() -> Artifact:
    """A root file system with NAMES, and IPTABLES in `bin`."""
    key = fingerprint(Path(__file__).read_bytes(), _release(), os.uname().machine)
    return Artifact(cache(), "node-packages", key, hashed=False)


def wanted() -> Wanted:
    return "Debian's packages for the node", packages(), _make


def environment() -> dict[str, str]:
    """In which the packages' programs find each other and their libraries."""
    root = packages().path
    libraries = root / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    folders = [root / name for name in ("bin", "usr/sbin", "usr/bin")]
    machine = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
    return {
        "PATH": os.pathsep.join([*map(str, folders), *machine]),
        "LD_LIBRARY_PATH": str(libraries),
        "XTABLES_LIBDIR": str(libraries / "xtables"),
    }


def _release() -> str:
    """The code name, as `bookworm`."""
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _make(folder: Path, work: Path, step: Step) -> None:
    folder.mkdir(parents=True)
    files, log = work / "debs", work / "debs.log"
    files.mkdir(exist_ok=True)
    # The release's version, also where another one is installed that no mirror has.
    fetch: list[str | Path] = ["apt-get", "download", *(f"{name}/{_release()}" for name in NAMES)]
    # Otherwise apt warns that its own user cannot write here.
    fetch += ["-o", "APT::Sandbox::User=root"]
    try:
        shell.run(fetch, step, log, cwd=files)
    except SetupError:
        # No package lists, or old ones, which name files that the mirror no longer has.
        shell.run(["apt-get", "update"], step, log)
        shell.run(fetch, step, log, cwd=files)
    for file in sorted(files.glob("*.deb")):
        shell.run(["dpkg", "-x", file, folder], step, log)
    # No program here reads them.
    shutil.rmtree(folder / "usr" / "share")
    for name in IPTABLES:
        (folder / "bin" / name).symlink_to(Path("..", XTABLES))
