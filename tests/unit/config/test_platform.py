"""Platform files: what is refused, and how each client logs in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from sluice.clients.kafka.login.properties import java, librdkafka
from sluice.config import platform
from sluice.config.platform_sections import metrics
from sluice.config.platform_sections.s3 import S3
from sluice.config.reading import files, values
from sluice.config.reading.toml import ConfigError, secrets
from tests.support.raising import raising

NO_URLS = (
    *("http://h:abc", "http://h:99999", "http://h:0", f"http://{'a' * 70}.test", "http://a..test", "http://"),
    *("http://[::1", "http://h/ä", "http://h/a b", "ftp://h", "h:1", "http://h\\n"),
)
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
[lake.catalog]
type = "sql"
uri = "postgresql://127.0.0.1:5432/lake"
username = "consumer"
password = "p@ss/word"
[source]
bucket = "source"
[checkpoints]
root = "/srv/checkpoints"
"""


def test_a_platform_file_is_read_and_hides_its_secrets() -> None:
    made = platform.parse(PLATFORM, "consumer.toml")
    assert made.lake.spark()["uri"] == "jdbc:postgresql://127.0.0.1:5432/lake"
    assert "p%40ss%2Fword@127.0.0.1" in made.lake.pyiceberg(made.s3)["uri"].replace("%2f", "%2F")
    assert "sslmode=disable" in made.lake.pyiceberg(made.s3)["uri"], "it is this machine"
    assert java(made.kafka)["sasl.jaas.config"].endswith(r'password="pa\"ss\\word";')
    assert librdkafka(made.kafka)["sasl.password"] == 'pa"ss\\word'
    assert not any(secret in repr(made) for secret in ("hidden", "p@ss", "pa\\"))


def test_a_secret_of_another_type_is_not_named() -> None:
    with raising(ConfigError, "secret_key: it is a int. Fix: give a str, in quotes") as caught:
        platform.parse(PLATFORM.replace('"hidden"', "48151623"), "consumer.toml")
    assert "48151623" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[source]", "[sauce]"), "unknown key 'sauce'; known keys are"),
        (("path_style = true", 'path_style = "yes"'), "path_style: 'yes' is a str. Fix: give a bool"),
        (('type = "sql"', "type = true"), "lake catalog type: True is a bool. Fix: give a str"),
        (
            ("[lake.catalog]", 'catalog_host = "h"\n[lake.catalog]'),
            "username, password, sslmode and sslrootcert",
        ),
        (('bucket = "source"', ""), "[source]"),
        (('role = "consumer"', 'role = "boss"'), "role 'boss' is unknown; roles are airflow"),
        (('role = "consumer"', "role = consumer"), "not valid TOML"),
    ],
)
def test_a_wrong_platform_file_is_refused_with_the_fix(change: tuple[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        platform.parse(PLATFORM.replace(*change), "consumer.toml")
    assert words in str(caught.value) or "key 'bucket' is missing" in str(caught.value)
    assert "consumer.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "key", "sent"),
    [
        (
            '[supervisor]\nurl = "http://h:1/RPC2"\nusername = "u"\npassword = "unsaid"',
            "supervisor url",
            "login",
        ),
        (f'[observer]\nurl = "http://h:1"\ntoken = "{"t" * 24}"', "observer url", "token"),
        (f'[metrics]\nchecks_url = "http://h:1"\ntoken = "{"t" * 24}"', "metrics checks_url", "token"),
    ],
)
def test_a_login_for_another_machine_is_encrypted_unless_it_is_declared(
    section: str, key: str, sent: str
) -> None:
    said = (
        f"consumer.toml: {key} is of another machine, and the {sent} would be sent to it in plain text. Fix: "
    )
    with raising(ConfigError, said, "https://, or, in a network that you trust, plain_text = true") as caught:
        platform.parse(f"{PLATFORM}{section}\n", "consumer.toml")
    assert "unsaid" not in str(caught.value)
    assert "t" * 24 not in str(caught.value)
    for text in (section.replace("h:1", "127.0.0.1:1"), f"{section}\nplain_text = true"):
        platform.parse(f"{PLATFORM}{text}\n", "consumer.toml")


def test_the_supervisors_password_is_hidden_too() -> None:
    login = '[supervisor]\nurl = "http://127.0.0.1:9001/RPC2"\nusername = "sluice"\npassword = "unsaid"\n'
    made = platform.parse(PLATFORM + login, "airflow.toml")
    assert made.supervisor is not None
    assert made.supervisor.password == "unsaid"
    assert "unsaid" not in repr(made)


@pytest.mark.parametrize("url", NO_URLS)
def test_an_address_that_no_client_can_open_is_refused(url: str) -> None:
    token = f'token = "{"t" * 24}"'
    for key, text in {
        "metrics checks_url": f'{PLATFORM}[metrics]\nchecks_url = "{url}"\n{token}\n',
        "supervisor url": f'{PLATFORM}[supervisor]\nurl = "{url}"\nusername = "u"\npassword = "p"\n',
        "feeds wiki": f'{PLATFORM}[feeds]\nwiki = "{url}"\n',
        "s3 endpoint": PLATFORM.replace("http://127.0.0.1:9000", url),
    }.items():
        with raising(ConfigError, "consumer.toml", key, "http://"):
            platform.parse(text, "consumer.toml")


@pytest.mark.parametrize("token", ["é" * 24, "ł" * 24, f"{'t' * 24}\\n", f"{'t' * 12} {'t' * 12}"])
def test_a_token_that_no_header_can_have_is_refused_without_showing_it(token: str) -> None:
    with raising(ConfigError, "consumer.toml", "metrics token", "ASCII") as caught:
        platform.parse(f'{PLATFORM}[metrics]\ntoken = "{token}"\n', "consumer.toml")
    assert token[:12] not in str(caught.value)


def test_a_platform_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "consumer.toml"
    path.write_text(PLATFORM)
    path.chmod(0o644)
    with raising(ConfigError, path, "600"):
        platform.load("consumer", {"SLUICE_PLATFORM_DIR": str(tmp_path)})
    path.chmod(0o600)
    assert platform.load("consumer", {"SLUICE_PLATFORM_DIR": str(tmp_path)}).role == "consumer"
    with raising(ConfigError, tmp_path / "producer.toml"):
        platform.load("producer", {"SLUICE_PLATFORM_DIR": str(tmp_path)})
    with raising(ConfigError, "SLUICE_PLATFORM_DIR"):
        platform.load("producer", {})


def test_of_the_metrics_alone_no_more_of_the_file_is_read(tmp_path: Path) -> None:
    file, environ = tmp_path / "airflow.toml", {"SLUICE_PLATFORM_DIR": str(tmp_path)}
    file.touch(mode=0o600)
    for text, *said in (
        ("", "[metrics] is missing", "Fix:"),
        ("metrics = 1", "[metrics] is missing"),
        ("[metrics]", "'token' is missing"),
        ('[metrics]\ntoken = "short"', "shorter than 24"),
        (f'[metrics]\ntoken = "{"t" * 24}"\nchecks_url = "checks:18082"', "http://"),
    ):
        file.write_text(text)
        with raising(ConfigError, str(file), *said):
            platform.load_metrics(environ)
    file.write_text(f'[metrics]\ntoken = "{"t" * 24}"\n[kafka]\nunknown = 1')
    assert platform.load_metrics(environ) == metrics.Metrics("t" * 24)


@pytest.mark.parametrize(("size", "bound"), [(0, "at least 1"), (1025, "at most 1024")])
def test_a_batch_may_have_a_gigabyte_at_most(size: int, bound: str) -> None:
    text = PLATFORM.replace("[kafka]", f"[kafka]\nmax_batch_mb = {size}")
    with raising(ConfigError, f"consumer.toml: kafka max_batch_mb is {size}; it must be {bound}. Fix: "):
        platform.parse(text, "consumer.toml")


@pytest.mark.parametrize(
    ("root", "in_bucket"),
    [("/srv/checkpoints", False), ("s3a://bucket", True), ("s3a://bucket/a/b/", True)],
)
def test_checkpoints_are_in_a_folder_or_in_a_bucket(root: str, in_bucket: bool) -> None:
    made = platform.parse(PLATFORM.replace("/srv/checkpoints", root), "consumer.toml").checkpoints
    assert (made.root, made.in_bucket) == (root, in_bucket)


@pytest.mark.parametrize(
    "root",
    [
        "",
        "checkpoints",
        "~/checkpoints",
        "s3://bucket/a",
        "s3a://",
        "s3a:///a",
        "file:///srv/a",
        "hdfs://a/b",
    ],
)
def test_checkpoints_where_spark_cannot_write_or_the_audit_cannot_read_are_refused(root: str) -> None:
    """Spark has no file system for s3:// and runs each process in a directory of its own; the audit reads
    folders and buckets."""
    with raising(ConfigError, "consumer.toml", "checkpoints", repr(root), "s3a://bucket/prefix"):
        platform.parse(PLATFORM.replace("/srv/checkpoints", root), "consumer.toml")


@pytest.mark.parametrize(
    ("owner", "group", "mode", "is_open"),
    [
        # The reader's own file: for it alone.
        (1000, 1000, 0o600, False),
        (1000, 1000, 0o640, True),
        (1000, 1000, 0o604, True),
        # As Kubernetes mounts a Secret: root's, for a group of the reader, who may not change it.
        (0, 2000, 0o440, False),
        (0, 1000, 0o640, False),
        (0, 2000, 0o460, True),
        (0, 2000, 0o444, True),
        (0, 2000, 0o442, True),
        # A group in which the reader is not, and a file of another user.
        (0, 3000, 0o440, True),
        (1001, 2000, 0o440, True),
    ],
)
def test_who_else_may_read_a_file(
    owner: int, group: int, mode: int, is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1000)
    monkeypatch.setattr(os, "getgroups", lambda: [2000])
    found = os.stat_result((mode, 0, 0, 1, owner, group, 0, 0, 0, 0))
    assert files._is_open(found) is is_open


def test_root_itself_reads_no_file_that_its_group_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgroups", lambda: [0])
    assert files._is_open(os.stat_result((0o440, 0, 0, 1, 0, 0, 0, 0, 0, 0)))
    assert not files._is_open(os.stat_result((0o400, 0, 0, 1, 0, 0, 0, 0, 0, 0)))


@pytest.mark.parametrize("host", ["::1", "fd00::7"])
def test_every_client_reaches_a_catalog_at_an_address_of_ipv6(host: str) -> None:
    text = PLATFORM.replace("//127.0.0.1:5432", f"//[{host}]:5432")
    lake = platform.parse(declared(text, 'sslmode = "disable"'), "consumer.toml").lake
    assert lake.spark()["uri"] == f"jdbc:postgresql://[{host}]:5432/lake"
    uri = make_url(lake.pyiceberg(S3("key", "hidden"))["uri"])
    assert (uri.host, uri.port) == (host, 5432)
    assert lake.catalog.libpq()["host"] == host


@pytest.mark.parametrize("host", ["db.example.com", "10.0.0.7", "postgres"])
def test_a_catalog_on_another_machine_is_verified_by_every_client_unless_it_is_declared(host: str) -> None:
    other = PLATFORM.replace("//127.0.0.1:5432", f"//{host}:5432")
    with raising(ConfigError, "consumer.toml", "[lake.catalog]", "sslrootcert", "verify-full", host):
        platform.parse(other, "consumer.toml")
    for mode in ("prefer", "allow", "verify_full"):
        with raising(ConfigError, "[lake.catalog]", "sslmode", mode):
            platform.parse(declared(other, f'sslmode = "{mode}"'), "consumer.toml")
    with raising(ConfigError, "sslrootcert"):
        platform.parse(declared(other, 'sslmode = "verify-ca"'), "consumer.toml")

    for text, mode in (
        ('sslrootcert = "/etc/ssl/a b.pem"', "verify-full"),
        ('sslmode = "verify-ca"\nsslrootcert = "/etc/ssl/a b.pem"', "verify-ca"),
        ('sslmode = "require"', "require"),
        ('sslmode = "disable"', "disable"),
    ):
        made = platform.parse(declared(other, text), "consumer.toml")
        uri = make_url(made.lake.pyiceberg(made.s3)["uri"])
        jdbc = {key.removeprefix("jdbc."): value for key, value in made.lake.spark().items()}
        for found in (jdbc, made.lake.catalog.libpq(), uri.query):
            assert found["sslmode"] == mode
            assert found.get("sslrootcert") == ("/etc/ssl/a b.pem" if "sslrootcert" in text else None)
        assert (uri.host, uri.password) == (host, "p@ss/word")
        assert "socketTimeout" in jdbc


def declared(text: str, more: str) -> str:
    return text.replace("[source]", f"{more}\n[source]")


def test_an_address_is_shown_without_a_login() -> None:
    shown = values.shown_address
    assert shown("https://u:p@a.example.com:1/x?k=v&l#m") == "https://a.example.com:1/x?k=***&l=***"
    assert shown("http://token@a:1,http://b:2") == "http://a:1,http://b:2"
    assert shown("a:9092,b:9092") == "a:9092,b:9092"
    assert shown("u:p@a:9092") == "a:9092"
    assert shown("https://u:p@[::1/x") == "https://***[::1/x"
    assert (shown("AWS eu-central-1"), shown("")) == ("AWS eu-central-1", "")


def test_an_addresss_secrets_are_those_of_its_platform_file() -> None:
    text = PLATFORM + '[feeds]\nx = "https://u:p%2Fw@a/?api_key=ab%20cd&since=2026"\n'
    text += '[supervisor]\nurl = "http://user:in-url@127.0.0.1:1"\nusername = "u"\npassword = "w"\n'
    found = secrets(platform.parse(text, "consumer.toml"))
    assert {"p%2Fw", "p/w", "ab%20cd", "ab cd", "in-url"} <= set(found)
    assert "2026" not in found
    assert values.secrets_in("https://a-token@a/") == ["a-token"]
    # It is in no message.
    with raising(ConfigError, "feeds x", "'ftp://a/'"):
        platform.parse(PLATFORM + '[feeds]\nx = "ftp://u:word@a/"\n', "consumer.toml")


def test_the_variables_of_a_role_are_those_to_which_its_file_refers(tmp_path: Path) -> None:
    environ = {platform.DIRECTORY_VARIABLE: str(tmp_path)}
    assert platform.variables("consumer", environ) == frozenset()
    path = tmp_path / "consumer.toml"
    path.write_text('[kafka]\npassword = { env = "KAFKA_KEY" }\n[s3]\nsecret_key = { file = "/s" }')
    path.chmod(0o600)
    assert platform.variables("consumer", environ) == {"KAFKA_KEY"}
