"""Small container images of a folder each, as docker-archives, without Docker."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.k8s import artifacts
from tests.k8s.cluster import packages

PAUSE = "local.test/pause:1"
COREDNS = "local.test/coredns:1"
BUSYBOX = "local.test/busybox:1"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LAYER = "layer.tar"


def write_archive(path: Path, name: str, root: Path, entrypoint: Sequence[str] = ()) -> None:
    """An image of the files of `root`, owned by root."""
    layer = path.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        tar.add(root, arcname=".", filter=_of_root)
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = {
        "architecture": ARCHITECTURES[os.uname().machine],
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    text = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [LAYER]}]
    with tarfile.open(path, "w") as tar:
        for file_name, data in ((config_name, text), ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(file_name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        tar.add(layer, arcname=LAYER)
    layer.unlink()


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    if member.name == ".":
        member.mode = 0o755  # also where this process makes private folders
    return member


def names_of(archive: Path) -> dict[str, str]:
    """Full name of each image in it -> the id of its content."""
    with tarfile.open(archive) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        listed = json.load(file)
    found: dict[str, str] = {}
    for image in listed:
        # `ID.json`, or `blobs/sha256/ID` of newer versions of Docker.
        digest = Path(image["Config"]).name.removesuffix(".json")
        found |= {_full(name): f"sha256:{digest}" for name in image["RepoTags"]}
    return found


def _full(name: str) -> str:
    """As containerd calls it: with a registry, which is what has a dot or a port."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"docker.io/library/{name}"
    return name if "." in first or ":" in first else f"docker.io/{name}"


def write_program(path: Path, name: str, program: str) -> None:
    """An image of one of Kubernetes' programs, which are static."""
    root = path.with_suffix("")
    root.mkdir()
    shutil.copy2(artifacts.binaries().path / program, root)
    write_archive(path, name, root, [f"/{program}"])
    shutil.rmtree(root)


def write_busybox(path: Path, name: str = BUSYBOX, note: str = "") -> None:
    """A shell, and small versions of the usual programs; `note`: the content of /etc/note."""
    root = path.with_suffix("")
    for folder in ("bin", "etc", "tmp"):
        (root / folder).mkdir(parents=True)
    (root / "etc" / "note").write_text(note)
    (root / "tmp").chmod(0o1777)
    shutil.copy2(packages.packages().path / "bin" / "busybox", root / "bin")
    for program in ("sh", "cat", "httpd", "id", "sleep", "tail", "wget"):
        (root / "bin" / program).symlink_to("busybox")
    write_archive(path, name, root, ["/bin/sh", "-c"])
    shutil.rmtree(root)
