"""`make check`, `make test`, `make test-all`: the checks in stages, each with its result and seconds.

The first failed stage ends the run: later ones take minutes and would fail for the same reason. A stage that
this machine cannot run is NOT RUN: the others go on, and the run ends with 1.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from local.base import REPO, cache

REPORTS = REPO / "build" / "tests"
# pytest's exit code if it selected no test.
NO_TEST = 5
UNIT = ("tests/unit", "tests/protocol", "tests/dags")
# Longest first: groups start in the order of the folders and files.
SLOW = ("tests/integration", "tests/drills", "tests/spark", "tests/browser", "tests/services")
COMPOSE = ("tests/compose",)
K8S = ("tests/k8s",)
CLUSTER = ("tests/k8s/cluster",)
COMMANDS = ("lint", "check", "test", "test-all", "k8s-check", "k8s-test", "compose-test")
LINTERS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("ruff check", ("ruff", "check", ".")),
    ("ruff format", ("ruff", "format", "--check", ".")),
    ("mypy", ("mypy", "--num-workers", "2")),
    ("import contract", ("lint-imports",)),
)


def docker_missing() -> str | None:
    """Why no containers can be run here; None if they can."""
    fix = "Fix: install Docker Engine with its compose plugin, and start it (docs/docker.md)"
    for command in (("docker", "compose", "version"), ("docker", "info", "--format", "{{.ServerVersion}}")):
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{shlex.join(command)}: {error}. {fix}"
        if answer.returncode:
            said = answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"]
            return f"{shlex.join(command)}: {said[-1]}. {fix}"
    return None


CGROUPS = Path("/sys/fs/cgroup")
# The kubelet asks for these.
CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


def node_missing() -> str | None:
    """Why no node of a cluster can be run here; None if one can."""
    if os.geteuid() != 0:
        return "a node needs root, for namespaces and cgroups. Fix: sudo make k8s-test"
    if shutil.which("apt-get") is None:
        return "a node's programs are Debian's packages, apt-get is missing. Fix: use Debian 12 or newer"
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2"), ("sysctl", "procps")):
        if shutil.which(program) is None:
            return f"a node needs {program}. Fix: apt-get install -y {package}"
    absent = [name for name in CONTROLLERS if name not in _cgroup_controllers()]
    if absent:
        return (
            f"a node needs the cgroup controllers {', '.join(absent)} below {CGROUPS}. "
            "Fix: in a container, run that with --privileged --cgroupns=host"
        )
    return None


def _cgroup_controllers() -> set[str]:
    """Return the controllers: version 2 lists them in a file, version 1 has a folder for each."""
    listed = CGROUPS / "cgroup.controllers"
    if listed.exists():
        return set(listed.read_text().split())
    return {path.name for path in CGROUPS.glob("*/")}


@dataclass(frozen=True)
class Stage:
    """A name, a command of the environment's programs, and the exit codes that count as passed.

    `missing`: why it cannot run on this machine; None if it can.
    """

    name: str
    command: tuple[str, ...]
    passed: tuple[int, ...] = (0,)
    missing: Callable[[], str | None] = lambda: None


def stages(command: str, arguments: Sequence[str]) -> list[Stage]:
    """The stages of a command, in order. ``arguments`` go to every pytest; paths among them select tests."""
    if command == "compose-test":
        return _containers(arguments)
    if command == "k8s-check":
        return _control_plane(arguments)
    if command == "k8s-test":
        return _cluster(arguments)
    found = [Stage(name, command) for name, command in LINTERS]
    chosen = () if command == "test-all" else ("-m", "not exhaustive")
    # Groups keep their order: by default xdist starts with the group of the most tests.
    spread = ("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    if command != "lint":
        profile = ("--hypothesis-profile=thorough",) if command == "test-all" else ()
        # Neighbours run in one process, which makes what they share once; at the end the other takes some.
        halves = ("-n", "2", "--dist", "worksteal")
        found += _pytest("unit", UNIT, (*halves, *profile, *chosen), arguments)
    if command in ("test", "test-all"):
        found += _pytest("slow", SLOW, (*spread, *chosen), arguments)
    if command == "test-all":
        found += [*_control_plane(arguments), *_cluster(arguments), *_containers(arguments)]
    return found


def _control_plane(arguments: Sequence[str]) -> list[Stage]:
    return _pytest("k8s", K8S, ("-v",), arguments, without=CLUSTER)


def _cluster(arguments: Sequence[str]) -> list[Stage]:
    # Docker builds the images that run there.
    found = _pytest("cluster", CLUSTER, ("-v",), arguments)
    return [replace(stage, missing=lambda: node_missing() or docker_missing()) for stage in found]


def _containers(arguments: Sequence[str]) -> list[Stage]:
    return [
        replace(stage, missing=docker_missing) for stage in _pytest("compose", COMPOSE, ("-v",), arguments)
    ]


def _pytest(
    name: str,
    folders: Sequence[str],
    options: Sequence[str],
    arguments: Sequence[str],
    without: Sequence[str] = (),
) -> list[Stage]:
    """``without``: folders below the others that belong to another stage."""
    paths = [text for text in arguments if text.startswith("tests/")]
    words = [text for text in arguments if text not in paths]
    below = [
        path for path in paths if path.startswith(tuple(folders)) and not path.startswith(tuple(without))
    ]
    if paths and not below:
        return []
    reports = ("--durations=25", "--durations-min=1", f"--junitxml={REPORTS / name}.xml")
    # Arguments may select tests of one stage only.
    passed = (0, NO_TEST) if arguments else (0,)
    ignored = [f"--ignore={folder}" for folder in without]
    command = ("pytest", *(below or folders), *ignored, *options, *reports, *words)
    return [Stage(f"{name} tests", command, passed)]


def run(stage: Stage) -> int:
    """Run one; give its exit code."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        # Not in the checkout: a fresh clone need not check the libraries again.
        "MYPY_CACHE_DIR": str(cache() / "mypy"),
    }
    # Each process of a run, and each program that a test starts, would compile all of the code again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [str(programs / stage.command[0]), *stage.command[1:]], cwd=REPO, env=environment
    ).returncode


def main(command: str, arguments: Sequence[str] = (), run: Callable[[Stage], int] = run) -> int:
    """Run the stages of one of COMMANDS; 1 if one failed or could not run, or if no test was selected.

    ``arguments``: for pytest.
    """
    results: list[tuple[str, str]] = []
    tested = command == "lint"
    for stage in stages(command, arguments):
        given = f": {shlex.join(arguments)}" if arguments and stage.command[0] == "pytest" else ""
        print(f"── {stage.name}{given}", flush=True)
        missing = stage.missing()
        if missing is not None:
            results.append(("NOT RUN", f"{stage.name}: {missing}"))
            tested = True
            continue
        began = time.monotonic()
        code = run(stage)
        passed = code in stage.passed
        results.append(("ok" if passed else "FAILED", f"{stage.name} ({time.monotonic() - began:.1f} s)"))
        tested |= stage.command[0] == "pytest" and code != NO_TEST
        if not passed:
            break
    for result, text in results:
        print(f"{result:<7}{text}" if result != "NOT RUN" else f"{result} {text}", flush=True)
    passed = all(result == "ok" for result, _ in results)
    if passed and not tested:
        print(f"sluice: {shlex.join(arguments)} selects no test of {command}", file=sys.stderr)
    return 0 if passed and tested else 1
