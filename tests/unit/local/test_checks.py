"""`make lint`, `check`, `test` and `test-all`: which stages they run, and what ends them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from local import checks
from local.checks import LINTERS, REPO, SLOW, UNIT, Stage, main, stages
from tests.conftest import GROUPS

FAST = [name for name, _ in LINTERS] + ["unit tests"]
WHOLE = [*FAST, "slow tests"]
WITHOUT_DOCKER = [*WHOLE, "k8s tests"]
EVERYTHING = [*WITHOUT_DOCKER, "cluster tests", "compose tests"]


def names(command: str) -> list[str]:
    return [stage.name for stage in stages(command, [])]


def pytests(command: str, *arguments: str) -> list[Stage]:
    return [stage for stage in stages(command, arguments) if stage.command[0] == "pytest"]


class Runner:
    """Takes note of what it is to run, and ends each stage with 0 or as it is told."""

    def __init__(self, **codes: int) -> None:
        self.codes = {name.replace("_", " "): code for name, code in codes.items()}
        self.ran: list[Stage] = []

    def __call__(self, stage: Stage) -> int:
        self.ran.append(stage)
        return self.codes.get(stage.name, 0)

    @property
    def names(self) -> list[str]:
        return [stage.name for stage in self.ran]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("lint", FAST[:-1]),
        ("check", FAST),
        ("test", WHOLE),
        ("test-all", EVERYTHING),
        ("k8s-check", ["k8s tests"]),
        ("k8s-test", ["cluster tests"]),
        ("compose-test", ["compose tests"]),
    ],
)
def test_what_costs_least_comes_first(command: str, expected: list[str]) -> None:
    assert names(command) == expected


def test_a_check_starts_nothing_slow() -> None:
    [unit] = pytests("check")
    assert unit.command[1 : 1 + len(UNIT)] == UNIT
    assert not set(unit.command) & set(SLOW)


@pytest.mark.parametrize(("command", "left_out"), [("test", True), ("test-all", False)])
def test_exhaustive_tests_run_in_all_of_them_only(command: str, left_out: bool) -> None:
    _, slow, *_ = pytests(command)
    assert set(slow.command) >= {"tests/integration", "tests/spark"}
    assert ("not exhaustive" in slow.command) is left_out


@pytest.mark.parametrize("command", ["check", "test", "test-all"])
def test_arguments_reach_every_pytest_and_may_choose_none(command: str) -> None:
    found = pytests(command, "-k", "a name", "-x")
    assert all(stage.command[-3:] == ("-k", "a name", "-x") for stage in found)
    assert all(5 in stage.passed for stage in found)
    assert not any(5 in stage.passed for stage in pytests(command))


@pytest.mark.parametrize(
    ("command", "paths", "expected"),
    [
        ("test", ["tests/unit/local"], ["unit tests"]),
        ("test", ["tests/spark/test_feed.py::test_x"], ["slow tests"]),
        ("test", ["tests/spark", "tests/dags"], ["unit tests", "slow tests"]),
        ("check", ["tests/spark"], []),
        ("k8s-check", ["tests/k8s/test_manifests.py"], ["k8s tests"]),
        ("k8s-check", ["tests/k8s/cluster/test_node.py"], []),
        ("k8s-test", ["tests/k8s/cluster/test_node.py"], ["cluster tests"]),
    ],
)
def test_paths_among_the_arguments_say_what_is_run(
    command: str, paths: list[str], expected: list[str]
) -> None:
    found = pytests(command, "-x", *paths)
    assert [stage.name for stage in found] == expected
    chosen = [component for stage in found for component in stage.command if component.startswith("tests/")]
    assert sorted(chosen) == (sorted(paths) if expected else [])
    assert all("-x" in stage.command for stage in found)


@pytest.mark.parametrize("command", ["check", "test"])
def test_every_pytest_tells_its_durations_and_writes_a_report_of_its_own(command: str) -> None:
    reports = [option for stage in pytests(command) for option in stage.command if "--junitxml" in option]
    assert len(set(reports)) == len(pytests(command))
    assert all(any("--durations" in option for option in stage.command) for stage in pytests(command))


def test_a_stage_that_fails_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    runner = Runner(mypy=1)
    assert main("test", run=runner) == 1
    assert runner.names == ["ruff check", "ruff format", "mypy"]
    results = {line.split(maxsplit=1)[1].partition(" (")[0]: line.split()[0] for line in rows(capsys)}
    assert results == {"ruff check": "ok", "ruff format": "ok", "mypy": "FAILED"}


def rows(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The table at the end, without the lines that tell what begins."""
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("──")]


@pytest.mark.parametrize(("code", "end"), [(0, 0), (1, 1), (5, 1)])
def test_the_last_stage_counts_too(code: int, end: int) -> None:
    runner = Runner(slow_tests=code)
    assert main("test", run=runner) == end
    assert runner.names == WHOLE


@pytest.mark.parametrize(
    ("docker", "reason"),
    [
        (None, "No such file"),
        ("echo 'permission denied' >&2; exit 1", "docker compose version: permission denied"),
        ('[ "$1" = compose ] || { echo "no daemon" >&2; exit 1; }', "docker info"),
    ],
)
def test_without_docker_all_but_the_containers_runs_and_the_end_is_not_green(
    docker: str | None,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if docker is not None:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if docker else str(tmp_path))
    runner = Runner()
    assert main("test-all", run=runner) == 1
    assert runner.names == WITHOUT_DOCKER
    cluster, told = [line for line in rows(capsys) if line.startswith("NOT RUN")]
    assert cluster.startswith("NOT RUN cluster tests: ")
    assert told.startswith("NOT RUN compose tests: ")
    assert reason in told
    assert "Fix: install Docker" in told


def test_a_check_of_kubernetes_needs_no_node() -> None:
    [stage] = pytests("k8s-check")
    assert f"--ignore={checks.CLUSTER[0]}" in stage.command
    assert stage.missing() is None


@pytest.mark.parametrize(
    ("user", "programs", "controllers", "reason"),
    [
        (1000, "apt-get unshare ip sysctl", "cpu cpuset memory pids", "root, for namespaces"),
        (0, "", "cpu cpuset memory pids", "apt-get is missing"),
        (0, "apt-get unshare sysctl", "cpu cpuset memory pids", "needs ip. Fix: apt-get install -y iproute2"),
        (0, "apt-get unshare ip sysctl", "cpu memory", "controllers cpuset, pids"),
        (0, "apt-get unshare ip sysctl", "cpu cpuset memory pids", "docker"),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_machine_that_cannot_run_a_node_says_why(
    user: int,
    programs: str,
    controllers: str,
    reason: str,
    version: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in programs.split():
        (tmp_path / name).touch(mode=0o755)
    groups = tmp_path / "cgroup"
    groups.mkdir()
    if version == 2:
        (groups / "cgroup.controllers").write_text(f"{controllers}\n")
    else:
        for name in controllers.split():
            (groups / name).mkdir()
    monkeypatch.setattr(checks, "CGROUPS", groups)
    monkeypatch.setattr(checks.os, "geteuid", lambda: user)
    monkeypatch.setenv("PATH", str(tmp_path))
    [stage] = pytests("k8s-test")
    said = stage.missing()
    assert said is not None
    assert reason in said
    assert "Fix: " in said


def test_a_daemon_that_answers_lets_the_containers_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "26.1", "")

    monkeypatch.setattr(checks.subprocess, "run", answers)
    runner = Runner()
    assert main("compose-test", run=runner) == 0
    assert runner.names == ["compose tests"]


@pytest.mark.parametrize(
    ("arguments", "codes", "end"),
    [
        ("-k typo", {"unit_tests": 5, "slow_tests": 5}, 1),
        ("-k one", {"unit_tests": 5}, 0),
        ("tests/unit/no/such/folder", {"unit_tests": 5}, 1),
    ],
)
def test_arguments_that_select_no_test_fail(arguments: str, codes: dict[str, int], end: int) -> None:
    assert main("test", arguments.split(), run=Runner(**codes)) == end


def test_slow_tests_are_none_of_a_check() -> None:
    assert main("check", ["tests/spark"], run=Runner()) == 1


def test_arguments_go_to_pytest_as_they_are() -> None:
    runner = Runner()
    assert main("check", ["-k", "a or b", "-x"], run=runner) == 0
    assert runner.ran[-1].command[-3:] == ("-k", "a or b", "-x")


def test_a_group_is_of_files_that_exist() -> None:
    """Tests of a file that was renamed would else run in another group."""
    assert [place for place in GROUPS if not (REPO / place).exists()] == []


def test_what_a_stage_compiles_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    ended = Stage("any", (Path(sys.executable).name, "-c", "import sys; sys.exit(sys.dont_write_bytecode)"))
    assert checks.run(ended) == 0
