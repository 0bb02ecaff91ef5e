"""The set-up's parsers and pins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from local.base import REPO, SetupError, UsageError
from local.services.minio import parse_requests
from local.setup.bootstrap import parse
from local.setup.build import check_pinned, differences, go_version
from local.setup.cache import environment, pinned_jars
from local.setup.lock import without_entry
from tests.support.raising import raising

PINNED = (
    *("requirements.txt", "local/bootstrap.txt", "local/go.txt", "local/registry.txt"),
    "local/ministack.txt",
    *("tests/k8s/java.txt", "tests/k8s/spark-api.txt"),
)


def test_pins_by_set(tmp_path: Path) -> None:
    file = tmp_path / "jars.sha256"
    file.write_text("# comment\n\naa  spark/a-1.jar\nbb  kafka/a-1.jar\ncc  spark/b.jar\n")
    assert pinned_jars("spark", file) == {"a-1.jar": "aa", "b.jar": "cc"}
    assert pinned_jars("kafka", file) == {"a-1.jar": "bb"}


def test_differences_are_named() -> None:
    assert differences({"a": "1"}, {"a": "1"}) == ""
    said = differences({"a": "2", "c": "3"}, {"a": "1", "b": "1"})
    assert said == "b is missing; c is not pinned; a has SHA-256 2 instead of 1"


def test_another_archive_of_the_registry_is_refused(tmp_path: Path) -> None:
    (name,) = pinned_jars("registry")
    (tmp_path / name).write_bytes(b"another")
    with raising(SetupError, name, "instead of", "Fix: "):
        check_pinned(tmp_path, "registry")


def test_all_jar_sets_are_pinned() -> None:
    spark, kafka = pinned_jars("spark"), pinned_jars("kafka")
    assert {"kafka-clients-3.9.0.jar", "iceberg-spark-runtime-4.0_2.13-1.10.2.jar"} <= spark.keys()
    assert "kafka_2.13-4.1.1.jar" in kafka
    connect = pinned_jars("connect")
    assert {"iceberg-kafka-connect-1.10.1.jar", "connect-runtime-4.1.1.jar"} <= connect.keys()
    assert set(pinned_jars("registry")) == {"apicurio-registry-app-3.3.3.tar.gz"}
    # Older ones than PySpark's own would come first on the class path.
    assert not [
        name for name in spark if name.startswith(("slf4j", "httpc", "commons-codec", "commons-logging"))
    ]
    assert all(
        re.fullmatch("[0-9a-f]{64}", digest) for jars in (spark, kafka, connect) for digest in jars.values()
    )


@pytest.mark.parametrize(
    "name",
    [*PINNED, "local/ivy/spark.xml", "local/ivy/kafka.xml"],
)
def test_no_address_is_recorded(name: str) -> None:
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", (REPO / name).read_text())


@pytest.mark.parametrize("name", PINNED)
def test_every_requirement_is_pinned_with_hashes(name: str) -> None:
    text = re.sub(r"^#.*\n", "", (REPO / name).read_text(), flags=re.M)
    entries = re.split(r"\n(?=\S)", text.strip())
    assert not [entry.split()[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]


def test_an_entry_is_dropped_with_its_hashes() -> None:
    text = "a==1 \\\n    --hash=x\nb==2 \\\n    --hash=y\n    --hash=z\nb-c==3 \\\n    --hash=w\n"
    assert without_entry(text, "b") == "a==1 \\\n    --hash=x\nb-c==3 \\\n    --hash=w\n"


def test_java_s_own_words() -> None:
    text = "Property settings:\n    java.home = /usr/lib/jvm/x y\n    java.specification.version = 17\n"
    assert parse(text) == ("17", "/usr/lib/jvm/x y")
    with raising(UsageError):
        parse("command not found")


@pytest.mark.parametrize(
    ("text", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version go1.9 x", (1, 9)), ("", (0, 0))],
)
def test_go_s_version(text: str, version: tuple[int, int]) -> None:
    assert go_version(text) == version


def test_minio_s_metrics() -> None:
    text = (
        "# TYPE minio_api_requests_total counter\n"
        'minio_api_requests_total{name="PutObject",server="a",type="s3"} 12\n'
        'minio_api_requests_total{name="PutObject",server="b",type="s3"} 1\n'
        'minio_api_requests_total{name="HeadObject",server="a",type="s3"} 1e+03\n'
        'minio_api_requests_total{name="Metrics",server="a",type="admin"} 7\n'
        'minio_api_requests_errors_total{name="PutObject",server="a",type="s3"} 3\n'
    )
    assert parse_requests(text) == {"PutObject": 13, "HeadObject": 1000}


@pytest.mark.parametrize("verb", ["status", "down", "destroy"])
def test_a_set_up_that_was_interrupted_is_none(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    half = environment().path / "bin" / "python"
    half.parent.mkdir(parents=True)
    half.symlink_to(sys.executable)
    # In a process of its own: a set-up that counted would take its place.
    done = subprocess.run(
        [sys.executable, "-m", "local", verb], cwd=REPO, env=dict(os.environ), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "make setup" in done.stdout
