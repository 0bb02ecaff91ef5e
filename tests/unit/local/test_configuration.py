"""What is rendered is read back by those who read it: supervisord's parser, TOML, our own platform model."""

from __future__ import annotations

import configparser
import json
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from supervisor.datatypes import dict_of_key_value_pairs
from supervisor.options import expand

from local.base import UsageError
from local.containers import layout
from local.replay import __main__ as replay_server
from local.replay import server
from local.runtime import roles, supervisord
from local.runtime.context import Context
from local.services import airflow, kafka, minio, postgres, replay, streams
from sluice.airflow.operators.supervision.drill import HOME_VARIABLE
from sluice.config import platform
from sluice.config import streams as stream_files
from sluice.config.folders import VARIABLE
from sluice.config.platform import ROLES
from sluice.config.platform_sections import metrics
from sluice.config.reading.toml import ConfigError, dump
from sluice.config.streams import load_all
from sluice.core.processes import exits
from tests.support.raising import raising


def sections(context: Context) -> configparser.RawConfigParser:
    made = [
        kafka.program(context),
        minio.program(context),
        replay.program(context),
        *streams.programs(context),
        *airflow.programs(context),
    ]
    text = supervisord.render(made, context.home.root, "127.0.0.1:19001", "secret")
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";", "#"))
    parser.read_string(text)
    return parser


def test_supervisord_reads_back_the_environment(context: Context) -> None:
    parser = sections(context)
    raw = parser["program:airflow-scheduler"]["environment"]
    read = {name: expand(value, {}, "environment") for name, value in dict_of_key_value_pairs(raw).items()}
    assert read == airflow.environment(context)
    assert json.loads(read["AIRFLOW_CONN_SLUICE_SPARK"]) == {"conn_type": "spark", "host": "local[2]"}


def test_airflow_takes_other_settings_than_the_stack_s(context: Context) -> None:
    others = {"TRIGGERER__JOB_HEARTBEAT_SEC": "2", "CORE__PARALLELISM": "8"}
    read = airflow.environment(replace(context, airflow_settings=others))
    assert read["AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC"] == "2"
    assert (
        airflow.environment(context)["AIRFLOW__CORE__PARALLELISM"],
        read["AIRFLOW__CORE__PARALLELISM"],
    ) == (
        "4",
        "8",
    )


def test_programs_get_the_machine_s_variables_and_none_that_changes_what_they_do(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ("AIRFLOW__CORE__FERNET_KEY", "AWS_PROFILE", "PYTHONSTARTUP", "SPARK_HOME", "JAVA_TOOL_OPTIONS")
    machine = ("LC_TIME", "TZ", "HTTPS_PROXY", "SSL_CERT_FILE")
    for name in (*others, *machine):
        monkeypatch.setenv(name, "given")
    found = context.environment()
    assert {name for name in others if found.get(name) == "given"} == set()
    assert {name for name in machine if found.get(name) == "given"} == set(machine)


def test_airflow_knows_its_stack_for_drills_only_if_all_of_it_is_embedded(
    context: Context, tmp_path: Path
) -> None:
    """dags/drills.py makes no DAG without it."""
    assert airflow.environment(context)[HOME_VARIABLE] == f"{context.home.root}/"
    assert HOME_VARIABLE not in airflow.environment(replace(context, external="/platform"))
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.1"')
    assert not layout.context({}, frozenset(), "http://127.0.0.1:8080", tmp_path).is_embedded
    contained = replace(context, is_embedded=False)
    assert set(airflow.environment(context)) - set(airflow.environment(contained)) == {
        HOME_VARIABLE,
        "SLUICE_CACHE",
    }


def test_supervisord_reads_back_the_command(context: Context) -> None:
    command = expand(sections(context)["program:minio"]["command"], {}, "command")
    assert shlex.split(command) == list(minio.program(context).command)


def test_a_value_that_supervisord_cannot_hold_is_refused(context: Context) -> None:
    value = "both \" and '"
    program = supervisord.Program("x", ["x"], {"A": value}, 1, Path("/"))
    with raising(UsageError, repr(value)):
        supervisord.render([program], context.home.root, "127.0.0.1:1", "s")


def test_nothing_starts_by_itself_and_streams_are_stopped_through_python(context: Context) -> None:
    parser = sections(context)
    for name in parser.sections():
        if name.startswith("program:"):
            assert parser[name]["autostart"] == "false"
            assert "--pdeathsig" in parser[name]["command"]
    parts = [component.program for spec in load_all() for component in spec.components.values()]
    assert {"stream-nyc_taxi", "stream-wiki_changes-producer", "stream-wiki_changes-queries"} < set(parts)
    for name in parts:
        stream = parser[f"program:{name}"]
        assert stream["stopasgroup"] == "false"
        assert stream["killasgroup"] == "true"
        # The parent process restarts the component, and supervisord a parent process that was killed.
        assert stream["autorestart"] == "unexpected"
        command = shlex.split(stream["command"])
        assert command[command.index("-m") + 1] == "sluice.clients.processes.parent"
        assert [command[at + 1] for at, word in enumerate(command) if word == "--pdeathsig"] == [
            "TERM",
            "KILL",
        ]
        assert stream["redirect_stderr"] == "false"
        assert stream["stderr_logfile"].endswith(f"/{name}.restarts.log")
        assert (stream["startsecs"], stream["startretries"]) == ("0", "0"), "also of what ends at once"
        assert {0, 1, 126, 127, *exits.FINAL} < {int(code) for code in stream["exitcodes"].split(",")}
        assert stream["stopwaitsecs"] == "10"


def test_an_invalid_stream_keeps_its_programs_and_takes_no_others(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """supervisord ends what is no program any more."""
    before = {program.name for program in streams.programs(context)}
    (tmp_path / "rides").mkdir()
    (tmp_path / "rides" / "stream.toml").write_text("nonsense = 1")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    own = {"stream-rides", "stream-rides-producer", "stream-rides-queries"}
    assert {program.name for program in streams.programs(context)} == before | own
    assert streams.result_topics()


def test_every_part_of_a_stream_is_a_program_with_all_that_jobs_get(context: Context) -> None:
    made = {program.name: program for program in streams.programs(context)}
    assert len(made) == sum(len(spec.components) for spec in load_all())
    producer = made["stream-wiki_changes-producer"]
    assert list(producer.command[-5:]) == [
        str(context.python),
        *("-m", "spark_jobs", "producer", "wiki_changes"),
    ]
    assert producer.environment == made["stream-nyc_taxi"].environment == context.job_environment()


def test_the_replay_server_s_program(context: Context) -> None:
    program = replay.program(context)
    given = list(program.command)
    assert given[given.index("-m") + 1] == "local.replay"
    assert given[given.index("--port") + 1] == str(context.ports["replay"])
    assert str(context.home.data) in given[given.index("--position-file") + 1]
    replay_server.parser().parse_args(given[given.index("-m") + 2 :])
    assert "SLUICE_PLATFORM_DIR" not in program.environment, "it needs no password"


@pytest.mark.parametrize(
    ("given", "kept", "feed"),
    [
        (None, None, "public"),
        ("", "replay", "replay"),
        ("public", "replay", "public"),
        ("replay", None, "replay"),
    ],
)
def test_whose_feeds_are_read(given: str | None, kept: str | None, feed: str) -> None:
    assert replay.chosen(given, kept) == feed


def test_a_feed_that_there_is_not() -> None:
    with raising(UsageError, "SLUICE_FEED", "'wikimedia'", "public", "replay"):
        replay.chosen("wikimedia", None)


def test_the_replay_server_stands_in_for_the_feeds_that_it_knows() -> None:
    wiki, taxi = stream_files.load("wiki_changes"), stream_files.load("nyc_taxi")
    assert wiki.feed is not None
    other = replace(
        wiki, name="other", feed=replace(wiki.feed, url="https://example.com/v2/stream/page-move")
    )
    assert replay.feeds([wiki, taxi, other], 18081) == {
        "wiki_changes": f"http://127.0.0.1:18081{server.PATH}"
    }


def test_the_producer_and_airflow_know_where_a_feed_is_read(context: Context) -> None:
    feeds = {"wiki_changes": "http://127.0.0.1:18081/v2/stream/recentchange"}
    made = roles.documents(context.home, context.network, context.secrets, feeds)
    roles.write(context.home.platform, made)
    read = {
        role: platform.load(role, {platform.DIRECTORY_VARIABLE: str(context.home.platform)}) for role in ROLES
    }
    assert {role: found.feeds for role, found in read.items() if found.feeds} == {
        "producer": feeds,
        "airflow": feeds,
    }
    wrong = dump({**made["producer"], "feeds": {"wiki_changes": "stream.example.com"}})
    with raising(ConfigError, "p.toml", "wiki_changes", "'stream.example.com'"):
        platform.parse(wrong, "p.toml")
    roles.write(context.home.platform, roles.documents(context.home, context.network, context.secrets))
    assert "feeds" not in (context.home.platform / "producer.toml").read_text()


def test_a_person_s_own_platform_file_may_name_feeds_or_leave_ours(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "external"
    for role in ROLES:
        theirs(folder, role)
    ours = roles.documents(context.home, context.network, context.secrets, {"wiki_changes": "http://a"})
    assert roles.external(ours, folder)["producer"]["feeds"] == {"wiki_changes": "http://a"}
    with (folder / "producer.toml").open("a") as file:
        file.write('[feeds]\nwiki_changes = "http://b"\n')
    assert roles.external(ours, folder)["producer"]["feeds"] == {"wiki_changes": "http://b"}


def test_no_secret_in_a_command_or_in_spark_s_configuration(context: Context) -> None:
    public = [streams.spark_defaults(context)]
    parser = sections(context)
    public += [parser[name]["command"] for name in parser.sections() if name.startswith("program:")]
    for name, secret in context.secrets.items():
        assert not [text for text in public if secret in text], name


def test_the_password_of_minio_is_in_a_file_and_not_in_its_environment(context: Context) -> None:
    assert context.secrets["minio_root"] not in json.dumps(dict(minio.program(context).environment))
    minio.prepare(context)
    path = Path(minio.program(context).environment["MINIO_ROOT_PASSWORD_FILE"])
    assert path.read_text() == context.secrets["minio_root"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_everything_listens_on_loopback_only(context: Context) -> None:
    parser = sections(context)
    assert parser["inet_http_server"]["port"] == "127.0.0.1:19001"
    properties = dict(line.split("=", 1) for line in kafka.server_properties(context).splitlines() if line)
    assert properties["listeners"] == "CLIENT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    assert properties["allow.everyone.if.no.acl.found"] == "false"
    assert "PLAINTEXT" not in properties["listener.security.protocol.map"].replace("SASL_PLAINTEXT", "")
    assert "127.0.0.1:19000" in minio.program(context).command
    assert airflow.environment(context)["AIRFLOW__API__HOST"] == "127.0.0.1"


def test_postgresql_has_a_connection_for_all_that_run_at_once(context: Context) -> None:
    specs = load_all()
    queries = sum(len(spec.queries) for spec in specs)
    assert streams.connections(specs) == 100 + 5 * len(specs) + 3 * queries
    target = postgres.Installation(Path("/bin"), context.home.data, None)
    command = postgres.program(context, target).command
    assert f"max_connections={streams.connections(specs)}" in command


def test_platform_files_are_what_the_model_reads(context: Context) -> None:
    made = roles.documents(context.home, context.network, context.secrets)
    roles.write(context.home.platform, made)
    for role in ROLES:
        read = platform.load(role, {platform.DIRECTORY_VARIABLE: str(context.home.platform)})
        assert read.kafka.username == f"sluice-{role}"
        assert read.checkpoints.root == str(context.home.checkpoints)
        assert (read.supervisor is not None) == (role in ("airflow", "observer"))
    passwords = {made[role]["kafka"]["password"] for role in ROLES}
    assert len(passwords) == len(ROLES)


def test_writing_the_same_again_changes_nothing(context: Context) -> None:
    made = roles.documents(context.home, context.network, context.secrets)
    assert roles.write(context.home.platform, made)
    assert not roles.write(context.home.platform, made)
    made["reader"]["source"]["bucket"] = "other"
    assert roles.write(context.home.platform, made)


def theirs(folder: Path, role: str, text: str = "") -> None:
    folder.mkdir(exist_ok=True)
    text = text or (
        '[kafka]\nbootstrap_servers = "broker.example:9093"\nsecurity_protocol = "SSL"\n'
        '[s3]\naccess_key = "a"\nsecret_key = "b"\nregion = "eu-central-1"\n'
        '[lake]\nwarehouse = "s3://mine/lake"\nledger = "s3://mine/ledger"\n'
        '[source]\nbucket = "theirs"\n'
    )
    (folder / f"{role}.toml").write_text(text)


def test_a_person_s_own_kafka_and_s3(context: Context, tmp_path: Path) -> None:
    folder = tmp_path / "external"
    for role in ROLES:
        theirs(folder, role)
    ours = roles.documents(context.home, context.network, context.secrets)
    made = roles.external(ours, folder)
    roles.write(context.home.platform, made)
    read = platform.load("airflow", {platform.DIRECTORY_VARIABLE: str(context.home.platform)})
    assert read.kafka.bootstrap_servers == "broker.example:9093"
    assert read.kafka.password == ""
    assert read.s3.endpoint == ""
    assert read.lake.warehouse == "s3://mine/lake"
    assert read.lake.catalog.libpq()["port"] == context.ports["postgres"]
    assert read.source.bucket == "theirs"
    assert read.supervisor is not None


def test_checks_are_reported_to_the_stack_s_own_process_with_a_person_s_own_token_too(
    context: Context, tmp_path: Path
) -> None:
    folder, environ = tmp_path / "external", {platform.DIRECTORY_VARIABLE: str(context.home.platform)}
    for role in ROLES:
        theirs(folder, role)
    written = (folder / "airflow.toml").read_text() + f'[metrics]\ntoken = "{"t" * 32}"\n'
    for address, wanted in (("", "http://127.0.0.1:18082"), ("https://checks.example.com", None)):
        (folder / "airflow.toml").write_text(written + (f'checks_url = "{address}"\n' if address else ""))
        ours = roles.documents(context.home, context.network, context.secrets)
        roles.write(context.home.platform, roles.external(ours, folder))
        assert platform.load_metrics(environ) == metrics.Metrics("t" * 32, wanted or address)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[kafka]\n[s3]\n", ("reader.toml", "[lake]")),
        ("[kafka\n", ("reader.toml", "TOML")),
        (None, ("reader.toml", "No such file")),
    ],
)
def test_a_wrong_external_file_is_named(
    context: Context, tmp_path: Path, text: str | None, said: tuple[str, ...]
) -> None:
    folder = tmp_path / "external"
    for role in ROLES:
        theirs(folder, role)
    if text is None:
        (folder / "reader.toml").unlink()
    else:
        theirs(folder, "reader", text)
    ours = roles.documents(context.home, context.network, context.secrets)
    with raising(UsageError, *said):
        roles.external(ours, folder)


def test_references_of_a_person_s_own_files_are_followed_by_the_processes(
    context: Context, tmp_path: Path
) -> None:
    folder, secret = tmp_path / "external", tmp_path / "secret"
    secret.write_text("key-of-the-test\n")
    secret.chmod(0o600)
    for role in ROLES:
        theirs(folder, role)
        text = (folder / f"{role}.toml").read_text().replace('"b"', f'{{ file = "{secret}" }}')
        (folder / f"{role}.toml").write_text(text)
    ours = roles.documents(context.home, context.network, context.secrets)
    roles.write(context.home.platform, roles.external(ours, folder))
    assert "key-of-the-test" not in (context.home.platform / "reader.toml").read_text()
    environ = {platform.DIRECTORY_VARIABLE: str(context.home.platform)}
    assert platform.load("reader", environ).s3.secret_key == "key-of-the-test"


def test_a_reference_to_a_variable_is_refused_since_no_program_would_have_it(
    context: Context, tmp_path: Path
) -> None:
    folder = tmp_path / "external"
    for role in ROLES:
        theirs(folder, role)
    text = (folder / "reader.toml").read_text().replace('"b"', '{ env = "S3_KEY" }')
    (folder / "reader.toml").write_text(text)
    ours = roles.documents(context.home, context.network, context.secrets)
    with raising(UsageError, "reader.toml: s3 secret_key is a reference to an environment variable", "Fix: "):
        roles.external(ours, folder)


def test_toml_holds_any_text() -> None:
    document = {"role": "x", "s": {"a": 'quote " backslash \\ üñ %', "b": 3, "c": True}}
    assert tomllib.loads(dump(document)) == document
