"""A node for experiments: `python -m tests.k8s.cluster VERB`, as root.

up                       start it in the background; prints where it is
down                     end it; nothing stays but the imported images
kubectl ...              the administrator's
import ARCHIVE.tar       an image of `docker save`
ctr ...                  containerd's command
volume NAME SIZE         a persistent volume
run                      start it in the foreground, until Ctrl-C
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil

from local.base import UsageError, cache, exit_code
from local.stack.stack import wait_until
from tests.k8s import artifacts
from tests.k8s.cluster.node import Node, ctr_command, make_volume
from tests.k8s.cluster.running import running_node

# With Kubernetes to compile.
START_SECONDS = 1800.0
END_SECONDS = 60.0


def state() -> Path:
    """A link to the folder of the node that runs."""
    return cache() / "node"


def log() -> Path:
    return cache() / "node.log"


def run() -> int:
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    with running_node() as node:
        (node.folder / "run.pid").write_text(str(os.getpid()))
        state().unlink(missing_ok=True)
        state().symlink_to(node.folder)
        show(node)
        end.wait()
    state().unlink()
    return 0


def show(node: Node) -> None:
    print(f"KUBECONFIG={node.kubeconfig}")
    print(f"pods {node.addresses.pods}, services {node.addresses.services}, logs {node.folder}", flush=True)


def up() -> int:
    if is_running():
        raise UsageError(
            f"a node runs already, in {state().resolve()}. Fix: python -m tests.k8s.cluster down"
        )
    with log().open("wb") as file:
        command = [sys.executable, "-m", "tests.k8s.cluster", "run"]
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    wait_until("the node", lambda: is_running() or process.poll() is not None, START_SECONDS)
    print(log().read_text().rstrip())
    return process.poll() or 0


def is_running() -> bool:
    try:
        found = psutil.Process(int((state() / "run.pid").read_text()))
        return "tests.k8s.cluster" in found.cmdline()
    except (FileNotFoundError, psutil.NoSuchProcess):
        return False


def folder() -> Path:
    if not is_running():
        raise UsageError("no node runs. Fix: python -m tests.k8s.cluster up")
    return state().resolve()


def down() -> int:
    runner = psutil.Process(int((folder() / "run.pid").read_text()))
    runner.terminate()
    runner.wait(END_SECONDS)
    return 0


def kubectl(*arguments: str, text: str | None = None) -> int:
    environment = os.environ | {
        "KUBECONFIG": str(folder() / "kubeconfig"),
        "KUBECACHEDIR": str(folder() / "kubectl"),
    }
    command = [str(artifacts.binaries().path / "kubectl"), *arguments]
    return subprocess.run(command, env=environment, input=text, text=True).returncode


def ctr(*arguments: str) -> int:
    first = int((folder() / "first.pid").read_text())
    return subprocess.run([*ctr_command(first), *arguments]).returncode


def import_image(archive: str) -> int:
    return ctr("images", "import", str(Path(archive).resolve()))


def volume(name: str, size: str) -> int:
    return kubectl("apply", "-f", "-", text=json.dumps(make_volume(folder(), name, size)))


VERBS: dict[str, Callable[..., int]] = {
    "run": run,
    "up": up,
    "down": down,
    "kubectl": kubectl,
    "ctr": ctr,
    "import": import_image,
    "volume": volume,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in VERBS:
        raise UsageError(f"{' '.join(arguments) or 'nothing'} is no command:\n{__doc__}")
    verb, rest = VERBS[arguments[0]], arguments[1:]
    try:
        inspect.signature(verb).bind(*rest)
    except TypeError as error:
        raise UsageError(f"{' '.join(arguments)}: {error}. Usage:\n{__doc__}") from error
    return verb(*rest)


if __name__ == "__main__":
    sys.exit(exit_code(main))
