from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from sluice.model import platform, stream
from sluice.model.config import ConfigError

PLATFORM = """
role = "consumer"
[kafka]
bootstrap_servers = "127.0.0.1:9092"
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
username = "sluice-consumer"
password = 'pa"ss\\word'
[s3]
endpoint = "http://127.0.0.1:9000"
access_key = "key"
secret_key = "hidden"
path_style = true
[lake]
warehouse = "s3://warehouse/lake"
ledger = "s3://warehouse/ledger"
catalog_host = "127.0.0.1"
catalog_port = 5432
catalog_database = "lake"
catalog_user = "consumer"
catalog_password = "p@ss/word"
[source]
bucket = "source"
[checkpoints]
root = "checkpoints"
"""


def test_a_platform_file_is_read_and_hides_its_secrets() -> None:
    made = platform.parse(PLATFORM, "consumer.toml")
    assert made.lake.jdbc_uri == "jdbc:postgresql://127.0.0.1:5432/lake"
    assert "p%40ss%2Fword@127.0.0.1" in made.lake.pyiceberg(made.s3)["uri"].replace("%2f", "%2F")
    assert made.kafka.java()["sasl.jaas.config"].endswith(r'password="pa\"ss\\word";')
    assert made.kafka.librdkafka()["sasl.password"] == 'pa"ss\\word'
    assert not any(secret in repr(made) for secret in ("hidden", "p@ss", "pa\\"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[source]", "[sauce]"), "unknown key 'sauce'; known keys are"),
        (("catalog_port = 5432", 'catalog_port = "5432"'), "catalog_port: '5432' is a str; give a int"),
        (("catalog_port = 5432", "catalog_port = true"), "catalog_port: True is a bool; give a int"),
        (('bucket = "source"', ""), "[source]"),
        (('role = "consumer"', 'role = "boss"'), "role 'boss' is unknown; roles are airflow"),
        (('role = "consumer"', "role = consumer"), "not valid TOML"),
    ],
)
def test_a_wrong_platform_file_is_refused_with_the_mend(change: tuple[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        platform.parse(PLATFORM.replace(*change), "consumer.toml")
    assert words in str(caught.value) or "key 'bucket' is missing" in str(caught.value)
    assert "consumer.toml" in str(caught.value)


def test_the_supervisors_password_is_hidden_too() -> None:
    login = '[supervisor]\nurl = "http://127.0.0.1:9001/RPC2"\nusername = "sluice"\npassword = "unsaid"\n'
    made = platform.parse(PLATFORM + login, "airflow.toml")
    assert made.supervisor is not None
    assert made.supervisor.password == "unsaid"
    assert "unsaid" not in repr(made)


def test_a_platform_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "consumer.toml"
    path.write_text(PLATFORM)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        platform.load("consumer", {"SLUICE_PLATFORM_DIR": str(tmp_path)})
    path.chmod(0o600)
    assert platform.load("consumer", {"SLUICE_PLATFORM_DIR": str(tmp_path)}).role == "consumer"
    with pytest.raises(ConfigError, match="needs this file"):
        platform.load("producer", {"SLUICE_PLATFORM_DIR": str(tmp_path)})
    with pytest.raises(ConfigError, match="SLUICE_PLATFORM_DIR is not set"):
        platform.load("producer", {})


def test_every_stream_of_the_repository_is_well_declared() -> None:
    assert "nyc_taxi" in stream.names()
    for name in stream.names():
        spec = stream.load(name)
        assert spec.schema_file.is_file()
        assert spec.producer_script.is_file()
        assert spec.consumer_script.is_file()


def test_an_unknown_stream_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"stream 'taxi' is unknown; streams are .*nyc_taxi"):
        stream.load("taxi")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("partitions = 10", "partitions = 0"), "topic partitions is 0; it must be at least 1"),
        (('table = "raw.nyc_taxi"', 'table = "nyc_taxi"'), "write it as namespace.table"),
        (("partitions = 10", "partition = 10"), "unknown key 'partition'"),
    ],
)
def test_a_wrong_stream_is_refused(change: tuple[str, str], words: str) -> None:
    text = (stream.STREAMS / "nyc_taxi" / "stream.toml").read_text()
    with pytest.raises(ConfigError, match=words):
        stream.parse(text.replace(*change), "stream.toml")


SUPERVISION = {
    "interval_seconds": 120,
    "stall_seconds": 60,
    "start_seconds": 90,
    "behind_seconds": 300,
    "risk_seconds": 21_600,
    "most_restarts": 3,
    "restart_window_seconds": 1_800,
    "stop_seconds": 20,
}
MINIMAL = """
name = "rides"
schema = "schema.avsc"
table = "raw.rides"
[topic]
name = "rides"
partitions = 1
[consumer]
[budget]
s3_calls_per_batch = 1
versions_per_batch = 1
"""


def test_supervision_may_be_left_out_in_whole_and_in_part() -> None:
    assert asdict(stream.parse(MINIMAL, "stream.toml").supervision) == SUPERVISION
    part = stream.parse(f"{MINIMAL}[supervision]\nstall_seconds = 200\n", "stream.toml")
    assert asdict(part.supervision) == SUPERVISION | {"stall_seconds": 200}


@pytest.mark.parametrize("key", SUPERVISION)
def test_every_value_of_supervision_is_1_or_more(key: str) -> None:
    stream.parse(f"{MINIMAL}[supervision]\n{key} = 1\n", "stream.toml")
    with pytest.raises(ConfigError, match=f"stream.toml: supervision {key} is 0; it must be at least 1"):
        stream.parse(f"{MINIMAL}[supervision]\n{key} = 0\n", "stream.toml")
