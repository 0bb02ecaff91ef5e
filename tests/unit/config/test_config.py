from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from sluice.config import folders, platform, stream, streams
from sluice.config.reading import toml as config
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import overrides
from sluice.config.sections.feed import Feed
from tests.support.raising import raising

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
root = "/srv/checkpoints"
"""


def test_a_platform_file_is_read_and_hides_its_secrets() -> None:
    made = platform.parse(PLATFORM, "consumer.toml")
    assert made.lake.jdbc_uri == "jdbc:postgresql://127.0.0.1:5432/lake"
    assert "p%40ss%2Fword@127.0.0.1" in made.lake.pyiceberg(made.s3)["uri"].replace("%2f", "%2F")
    assert "sslmode=disable" in made.lake.pyiceberg(made.s3)["uri"], "it is this machine"
    assert made.kafka.java()["sasl.jaas.config"].endswith(r'password="pa\"ss\\word";')
    assert made.kafka.librdkafka()["sasl.password"] == 'pa"ss\\word'
    assert not any(secret in repr(made) for secret in ("hidden", "p@ss", "pa\\"))


def test_a_secret_of_another_type_is_not_named() -> None:
    with raising(ConfigError, "secret_key: it is a int. Fix: give a str, in quotes") as caught:
        platform.parse(PLATFORM.replace('"hidden"', "48151623"), "consumer.toml")
    assert "48151623" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("[source]", "[sauce]"), "unknown key 'sauce'; known keys are"),
        (("catalog_port = 5432", 'catalog_port = "5432"'), "catalog_port: '5432' is a str. Fix: give a int"),
        (("catalog_port = 5432", "catalog_port = true"), "catalog_port: True is a bool. Fix: give a int"),
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


def test_the_supervisors_password_is_hidden_too() -> None:
    login = '[supervisor]\nurl = "http://127.0.0.1:9001/RPC2"\nusername = "sluice"\npassword = "unsaid"\n'
    made = platform.parse(PLATFORM + login, "airflow.toml")
    assert made.supervisor is not None
    assert made.supervisor.password == "unsaid"
    assert "unsaid" not in repr(made)


NO_URLS = (
    *("http://h:abc", "http://h:99999", "http://h:0", f"http://{'a' * 70}.test", "http://a..test", "http://"),
    *("http://[::1", "http://h/ä", "http://h/a b", "ftp://h", "h:1", "http://h\\n"),
)


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
    assert platform.load_metrics(environ) == platform.Metrics("t" * 24)


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


def test_every_stream_of_the_repository_is_well_declared() -> None:
    assert {"nyc_taxi", "wiki_changes"} <= set(streams.names())
    for name in streams.names():
        spec = streams.load(name)
        assert spec.schema_file.is_file()


def test_an_unknown_stream_is_named_with_the_known_ones() -> None:
    with raising(ConfigError, "'taxi'", *streams.names()):
        streams.load("taxi")


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (("partitions = 10", "partitions = 0"), "topic partitions is 0"),
        (('table = "raw.nyc_taxi"', 'table = "nyc_taxi"'), "table 'nyc_taxi'"),
        (("partitions = 10", "partition = 10"), "key 'partition'"),
    ],
)
def test_a_wrong_stream_is_refused(change: tuple[str, str], data: str) -> None:
    text = (folders.STREAMS / "nyc_taxi" / "stream.toml").read_text()
    with raising(ConfigError, "stream.toml", data):
        stream.parse(text.replace(*change), "stream.toml")


SUPERVISION = {
    "interval_seconds": 120,
    "stall_timeout_seconds": 60,
    "startup_timeout_seconds": 90,
    "lag_window_seconds": 300,
    "retention_margin_seconds": 21_600,
    "max_restarts": 3,
    "restart_window_seconds": 1_800,
    "shutdown_grace_seconds": 20,
    "max_rejected_percent": 5,
}


def overriding(folder: Path, text: str) -> dict[str, str]:
    """The environment of an installation with these overrides."""
    file = folder / "overrides.toml"
    file.write_text(text)
    return {overrides.VARIABLE: str(file)}


def test_overrides_replace_a_streams_values_key_by_key(tmp_path: Path) -> None:
    declared = streams.load("wiki_changes", {})
    environ = overriding(
        tmp_path,
        "[wiki_changes.supervision]\nstall_timeout_seconds = 15\nmax_restarts = 1\n"
        "max_rejected_percent = 20\n"
        "[wiki_changes.feed]\nread_timeout_seconds = 7\n",
    )
    assert declared.feed is not None
    assert streams.load("wiki_changes", environ) == replace(
        declared,
        supervision=replace(
            declared.supervision, stall_timeout_seconds=15, max_restarts=1, max_rejected_percent=20
        ),
        feed=replace(declared.feed, read_timeout_seconds=7),
    )
    assert streams.load("nyc_taxi", environ) == streams.load("nyc_taxi", {}), "another stream is as declared"


def test_without_overrides_a_stream_is_as_declared(tmp_path: Path) -> None:
    declared = streams.load("nyc_taxi", {})
    assert streams.load("nyc_taxi", {overrides.VARIABLE: ""}) == declared
    assert streams.load("nyc_taxi", overriding(tmp_path, "")) == declared


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("nyc_taxi = 15\n", ("nyc_taxi is 15",)),
        (
            "[nyc_taxi.supervision]\nstall_minutes = 15\n",
            ("supervision.stall_minutes", "stall_timeout_seconds"),
        ),
        ('[nyc_taxi]\ntable = "raw.other"\n', ("nyc_taxi.table", "consumer.trigger_seconds")),
        ("[nyc_taxi.supervision]\ninterval_seconds = 30\n", ("nyc_taxi.supervision.interval_seconds",)),
        (
            "[nyc_taxi.supervision]\nstall_timeout_seconds = 0\n",
            ("nyc_taxi/stream.toml", "stall_timeout_seconds is 0"),
        ),
        ("[nyc_taxi.supervision]\nstall_timeout_seconds = '15'\n", ("stall_timeout_seconds: '15'",)),
    ],
    ids=["no table", "unknown key", "identity", "the schedule", "out of bounds", "wrong type"],
)
def test_wrong_overrides_are_named_with_their_file(tmp_path: Path, text: str, data: tuple[str, ...]) -> None:
    environ = overriding(tmp_path, text)
    with raising(ConfigError, environ[overrides.VARIABLE], *data):
        streams.load("nyc_taxi", environ)
    assert streams.load("isp_hits", environ) == streams.load("isp_hits", {}), "no other stream is concerned"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (
            "[taxi.supervision]\nstall_timeout_seconds = 15\n",
            ("'taxi' is no stream", "wiki_changes"),
        ),
        ("[nyc_taxi\n", ("line 1",)),
        (None, ("No such file",)),
    ],
    ids=["unknown stream", "no TOML", "no file"],
)
def test_overrides_that_are_of_no_stream_stop_none(
    tmp_path: Path, text: str | None, data: tuple[str, ...]
) -> None:
    environ = overriding(tmp_path, text or "")
    file = environ[overrides.VARIABLE]
    if text is None:
        Path(file).unlink()
    assert streams.load("nyc_taxi", environ) == streams.load("nyc_taxi", {})
    (problem,) = streams.problems([], environ)
    assert all(word in problem for word in (file, "Fix: ", *data))
    with raising(ConfigError, file, *data):
        overrides.check(file, streams.names())


MINIMAL = """
name = "rides"
schema = "schema.avsc"
table = "raw.rides"
[topic]
name = "rides"
partitions = 1
[consumer]
[budget]
versions_per_batch = 1
"""


def test_supervision_may_be_left_out_in_whole_and_in_part() -> None:
    assert asdict(stream.parse(MINIMAL, "stream.toml").supervision) == SUPERVISION
    component = stream.parse(f"{MINIMAL}[supervision]\nstall_timeout_seconds = 200\n", "stream.toml")
    assert asdict(component.supervision) == SUPERVISION | {"stall_timeout_seconds": 200}


@pytest.mark.parametrize("key", SUPERVISION)
def test_every_value_of_supervision_is_1_or_more(key: str) -> None:
    stream.parse(f"{MINIMAL}[supervision]\n{key} = 1\n", "stream.toml")
    with raising(ConfigError, "stream.toml", f"supervision {key} is 0"):
        stream.parse(f"{MINIMAL}[supervision]\n{key} = 0\n", "stream.toml")


def test_a_share_is_100_percent_at_most() -> None:
    text = f"{MINIMAL}[supervision]\nmax_rejected_percent = "
    assert stream.parse(f"{text}100\n", "stream.toml").supervision.max_rejected_percent == 100
    with raising(ConfigError, "stream.toml", "supervision max_rejected_percent is 101", "at most 100"):
        stream.parse(f"{text}101\n", "stream.toml")


def test_maintenance_may_be_left_out_and_its_values_are_1_or_more() -> None:
    declared = {"schedule_hours": 24, "restore_horizon_days": 7, "reconciliation_hours": 1}
    assert asdict(stream.parse(MINIMAL, "stream.toml").maintenance) == declared
    for key in declared:
        one = stream.parse(f"{MINIMAL}[maintenance]\n{key} = 1\n", "stream.toml").maintenance
        assert asdict(one) == declared | {key: 1}
        with raising(ConfigError, "stream.toml", f"maintenance {key} is 0"):
            stream.parse(f"{MINIMAL}[maintenance]\n{key} = 0\n", "stream.toml")


FEED = """
[feed]
url = "https://feed.example/stream"
user_agent = "Sluice (mail@rides.example)"
event_id = "event_id"
event = "events:read"
"""
QUERIES = """
[queries.riders]
group_by = ["rider"]
aggregates = {rides = "count"}
sinks = [{kind = "kafka", topic = "riders", partitions = 1}]
"""


WINDOWED = QUERIES.replace(
    "aggregates", 'event_time = "at"\nwindow = {size_minutes = 5, slide_minutes = 5}\naggregates'
).replace("aggregates", "watermark_minutes = 5\naggregates")


def test_windows_need_arrival_times_of_the_broker() -> None:
    """A sender whose clock is ahead would otherwise date the record and its arrival alike."""
    config = '[topic.config]\n"message.timestamp.type" = "{}"\n[consumer]'
    declared = stream.parse(
        (MINIMAL + WINDOWED).replace("[consumer]", config.format("LogAppendTime")), "stream.toml"
    )
    assert declared.topic.config == {"message.timestamp.type": "LogAppendTime"}
    for text, value in (
        (MINIMAL, "None"),
        (MINIMAL.replace("[consumer]", config.format("CreateTime")), "'CreateTime'"),
    ):
        with raising(ConfigError, "stream.toml", "query riders", value, '"message.timestamp.type" = '):
            stream.parse(text + WINDOWED, "stream.toml")
    stream.parse(MINIMAL + QUERIES, "stream.toml")


def test_a_stream_without_more_is_avro_unpartitioned_and_has_a_consumer_alone() -> None:
    spec = stream.parse(MINIMAL, "stream.toml")
    assert (spec.is_avro, spec.partition_by, spec.feed, spec.queries) == (True, [], None, {})
    assert [(p.name, p.program, p.arguments) for p in spec.components.values()] == [
        ("consumer", "stream-rides", ("-m", "spark_jobs", "consumer", "rides"))
    ]
    with raising(ConfigError, "'rides'", "'producer'", "consumer"):
        spec.component("producer")


def test_a_feed_is_read_at_its_own_address_in_somebodys_name_only() -> None:
    spec = stream.parse(MINIMAL + FEED, "stream.toml")
    assert spec.feed_url({"other": "http://127.0.0.1:1/"}) == "https://feed.example/stream"
    nobodys = stream.parse(MINIMAL + FEED.replace("mail@rides.example", "you@example.org"), "stream.toml")
    assert nobodys.feed_url({"rides": "http://127.0.0.1:1/"}) == "http://127.0.0.1:1/"
    with raising(ConfigError, "you@example.org", "https://feed.example/stream"):
        nobodys.feed_url({})
    with raising(ConfigError, "'rides'", "[feed]"):
        stream.parse(MINIMAL, "stream.toml").feed_url({})


def test_a_feed_and_queries_are_parts_with_defaults() -> None:
    spec = stream.parse(MINIMAL + FEED + QUERIES, "stream.toml")
    assert spec.feed == Feed(
        "https://feed.example/stream", "Sluice (mail@rides.example)", "event_id", "events:read", "", 30, 5000
    )
    assert {name: (p.program, p.arguments[2:]) for name, p in spec.components.items()} == {
        "consumer": ("stream-rides", ("consumer", "rides")),
        "producer": ("stream-rides-producer", ("producer", "rides")),
        "queries": ("stream-rides-queries", ("queries", "rides")),
    }
    assert spec.component("queries") == spec.components["queries"]
    assert spec.program == spec.component("consumer").program


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"schema.avsc"', '"schema.json"'), "schema 'schema.json'. Fix: name a file"),
        (('table = "raw.rides"', 'table = "Rides"'), "table 'Rides': write it as namespace.table"),
        (('"event_id"', '"eventId"'), "column 'eventId'. Fix: use"),
        (('"https://feed', '"ftp://feed'), "feed url 'ftp://feed.example/stream'. Fix: write it with http"),
        (('"events:read"', '"events.read"'), "feed event 'events.read'. Fix: write it as module:function"),
        (("[topic]", 'decode = "a:b"\n[topic]'), "decode 'a:b' with schema 'schema.avsc'"),
        (('"schema.avsc"', '"schema.ddl"'), "decode '' with schema 'schema.ddl'"),
        (("[feed]", "[csv]\n[feed]"), "[csv] and [feed]"),
        (('event_id = "event_id"', ""), "key 'event_id' is missing"),
        (("[topic]", 'partition_by = ["Day"]\n[topic]'), "column 'Day'. Fix: use"),
        (("[topic]", 'partition_by = "day"\n[topic]'), "partition_by: 'day' is not a list"),
        (("[topic]", "partition_by = [1]\n[topic]"), "partition_by: 1 is a int. Fix: give a str"),
        (
            ('[topic]\nname = "rides"', '[topic]\nname = "sluice-progress"'),
            "topic 'sluice-progress' is reserved",
        ),
        # Less 16 KiB for headers, every event would be cut to one byte.
        (
            ("[feed]", '[topic.config]\n"max.message.bytes" = 16384\n[feed]'),
            "max.message.bytes is 16384; a feed's must be at least 65536. Fix: raise it",
        ),
    ],
)
def test_a_wrong_feed_table_or_partition_is_refused(change: tuple[str, str], words: str) -> None:
    text = MINIMAL + FEED + QUERIES
    assert change[0] in text
    with pytest.raises(ConfigError) as caught:
        stream.parse(text.replace(*change), "stream.toml")
    assert words in str(caught.value)


def test_a_streams_objects_are_in_a_folder_of_its_name_unless_it_declares_another() -> None:
    assert stream.parse(MINIMAL, "stream.toml").source_prefix == "rides/"
    for prefix in ("", "a/", "team-1/rides_2.0/v=1/"):
        found = stream.parse(f'{MINIMAL}\n[csv]\nprefix = "{prefix}"', "stream.toml")
        assert found.source_prefix == prefix
    found = stream.parse(MINIMAL + '\n[csv]\nprefix = "team/{name}/"', "stream.toml")
    assert found.source_prefix == "team/rides/"


@pytest.mark.parametrize(
    "prefix", ["rides", "/", "/a/", "a//b/", "../b/", "a/../b/", "a/./", "a*/", "a b/", "a(/", "ä/", "a/\\n"]
)
def test_a_prefix_that_bounds_nothing_is_refused(prefix: str) -> None:
    with raising(ConfigError, "stream.toml", "[csv] prefix", "folders", 'that end with "/"'):
        stream.parse(f'{MINIMAL}\n[csv]\nprefix = "{prefix}"', "stream.toml")


@pytest.mark.parametrize("key", ["read_timeout_seconds", "max_in_flight", "lock_seconds"])
def test_every_number_of_a_feed_is_1_or_more(key: str) -> None:
    text = (MINIMAL + FEED).replace("[feed]", f"[feed]\n{key} = 0")
    with raising(ConfigError, "stream.toml", f"feed {key} is 0"):
        stream.parse(text, "stream.toml")
    stream.parse(text.replace(f"{key} = 0", f"{key} = 1"), "stream.toml")


def test_columns_in_spark_ddl_are_not_avro() -> None:
    more = 'decode = "transforms:rows"\npartition_by = ["day"]\n[topic]'
    text = MINIMAL.replace("schema.avsc", "schema.ddl").replace("[topic]", more) + FEED
    spec = stream.parse(text, "stream.toml")
    assert not spec.is_avro
    assert spec.partition_by == ["day"]


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
    assert config._is_open(found) is is_open


def test_root_itself_reads_no_file_that_its_group_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgroups", lambda: [0])
    assert config._is_open(os.stat_result((0o440, 0, 0, 1, 0, 0, 0, 0, 0, 0)))
    assert not config._is_open(os.stat_result((0o400, 0, 0, 1, 0, 0, 0, 0, 0, 0)))


@pytest.mark.parametrize("host", ["::1", "[::1]", "fd00::7"])
def test_every_client_reaches_a_catalog_at_an_address_of_ipv6(host: str) -> None:
    text = PLATFORM.replace('"127.0.0.1"\ncatalog_port', f'"{host}"\ncatalog_port')
    lake = platform.parse(declared(text, 'catalog_sslmode = "disable"'), "consumer.toml").lake
    address = host.strip("[]")
    assert lake.jdbc_uri == f"jdbc:postgresql://[{address}]:5432/lake"
    uri = make_url(lake.pyiceberg(platform.S3("key", "hidden"))["uri"])
    assert (uri.host, uri.port) == (address, 5432)
    assert lake.libpq()["host"] == address


@pytest.mark.parametrize("host", ["db.example.com", "10.0.0.7", "postgres"])
def test_a_catalog_on_another_machine_is_verified_by_every_client_unless_it_is_declared(host: str) -> None:
    other = PLATFORM.replace('"127.0.0.1"\ncatalog_port', f'"{host}"\ncatalog_port')
    with raising(ConfigError, "consumer.toml", "[lake]", "catalog_sslrootcert", "verify-full", host):
        platform.parse(other, "consumer.toml")
    for mode in ("prefer", "allow", "verify_full"):
        with raising(ConfigError, "[lake]", "catalog_sslmode", mode):
            platform.parse(declared(other, f'catalog_sslmode = "{mode}"'), "consumer.toml")
    with raising(ConfigError, "catalog_sslrootcert"):
        platform.parse(declared(other, 'catalog_sslmode = "verify-ca"'), "consumer.toml")

    for text, mode in (
        ('catalog_sslrootcert = "/etc/ssl/a b.pem"', "verify-full"),
        ('catalog_sslmode = "verify-ca"\ncatalog_sslrootcert = "/etc/ssl/a b.pem"', "verify-ca"),
        ('catalog_sslmode = "require"', "require"),
        ('catalog_sslmode = "disable"', "disable"),
    ):
        made = platform.parse(declared(other, text), "consumer.toml")
        uri = make_url(made.lake.pyiceberg(made.s3)["uri"])
        for found in (made.lake.jdbc(), made.lake.libpq(), uri.query):
            assert found["sslmode"] == mode
            assert found.get("sslrootcert") == ("/etc/ssl/a b.pem" if "sslrootcert" in text else None)
        assert (uri.host, uri.password) == (host, "p@ss/word")
        assert "socketTimeout" in made.lake.jdbc()


def declared(text: str, more: str) -> str:
    return text.replace("[source]", f"{more}\n[source]")
