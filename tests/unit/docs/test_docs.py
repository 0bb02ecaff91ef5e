"""The documentation says what is there: verbs, paths, links, variables, tables and messages, held against the
code. What cannot be checked here (whether a sentence is true) is for its reader."""

from __future__ import annotations

import ast
import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from bench.compare.workloads import WORKLOADS
from local import checks
from local.containers.stack import PROFILES_VARIABLE
from local.demo import run as demos
from local.runtime import ports, roles
from local.services import replay
from local.status.rows import HEADERS
from sluice.cli import app
from sluice.config import platform, streams
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.sections import query, sink, topic
from sluice.connection_check.rights.kafka import kafka_rules, kafka_user
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.bitmaps import Bitmap
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.sources import check_rows
from sluice.core.offsets.verify import FileStats, verify
from sluice.core.processes import exits, heartbeat
from sluice.core.processes.heartbeat import HeartbeatState
from sluice.core.queries import progress
from sluice.core.tables import summary
from sluice.ledger import keys as ledger
from sluice.supervision.lifecycle import Action, Request
from sluice.supervision.rules.status import LEFT_ALONE, NO_ACTION, RESTARTABLE, Health
from sluice.web import navigation
from spark_jobs.common.feed import event, records
from spark_jobs.common.feed.position import SavedPosition
from tests.drills.faults import DRILLS
from tests.support.alerting import ALERTING
from tests.support.counted import counted
from tests.support.pages import make_app

REPO = Path(__file__).resolve().parents[3]
README = REPO / "README.md"
ARCHITECTURE, OPERATING, REFERENCE, ERRORS, ADDING, OWN_SYSTEMS, TESTING, DAGS, STORED, DEVELOPING, DOCKER = (
    REPO / "docs" / f"{name}.md"
    for name in (
        "architecture",
        "operating",
        "reference",
        "errors",
        "adding-a-stream",
        "your-own-systems",
        "testing",
        "dags",
        "stored-data",
        "developing",
        "docker",
    )
)
KUBERNETES = REPO / "docs" / "kubernetes.md"
CATALOGS = REPO / "docs" / "catalogs.md"
PERFORMANCE = REPO / "docs" / "performance.md"
ESTATES = [REPO / "docs" / f"estate-{name}.md" for name in ("aws", "confluent", "self-hosted")]
PAGES = [
    *ESTATES,
    README,
    ARCHITECTURE,
    OPERATING,
    REFERENCE,
    ERRORS,
    ADDING,
    OWN_SYSTEMS,
    TESTING,
    DAGS,
    STORED,
    DEVELOPING,
    DOCKER,
    KUBERNETES,
    CATALOGS,
    PERFORMANCE,
]
EXAMPLE = REPO / "docs" / "platform.example.toml"
MAKE = re.compile(r"\bmake (?!it (?:writable|one of))([a-z][a-z0-9-]*)")
COMMAND = re.compile(r"(?:local/run|^sluice|run --rm(?: -v \S+)? tools) ([a-z][a-z0-9-]*)\b", re.M)
VARIABLE = re.compile(r"(?<![A-Z_])SLUICE_[A-Z_]*[A-Z]")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def fenced(text: str) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)


def spans(text: str) -> list[str]:
    """Inline code, white space as one blank; code in double backticks may hold single ones."""
    prose = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.M | re.S)
    found = re.findall(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", prose, re.S)
    return [" ".join(code.split()) for _, code in found]


def table(text: str, *head: str) -> list[list[str]]:
    """The cells of the one table whose first columns are ``head``."""
    lines = text.splitlines()
    (start,) = [n for n, line in enumerate(lines) if line.startswith("| " + " | ".join(head) + " |")]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def section(text: str, head: str) -> str:
    """What stands under the one heading ``head``, up to the next of its level or a higher one."""
    (found,) = re.finditer(rf"^(#+) {re.escape(head)}$", text, re.M)
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def source_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((REPO / folder).rglob("*.py"))


# What a person types.


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the command line's commands, in a checkout."""
    monkeypatch.setenv(app.VARIABLE, "local.commands")
    monkeypatch.delenv(PROFILES_VARIABLE, raising=False)
    return app.names(app.build()[0])


def targets() -> set[str]:
    [line] = re.findall(r"^COMMANDS := (.+)$", (REPO / "Makefile").read_text(), re.M)
    return set(line.split())


@each_page
def test_every_command_exists(page: Path, commands: set[str]) -> None:
    text = page.read_text()
    code = [*spans(text), *fenced(text)]
    made = {verb for one in code for verb in MAKE.findall(one)}
    assert made <= targets(), f"{page.name}: {sorted(made - targets())} are no targets of make"
    said = {name for one in code for name in COMMAND.findall(one)}
    assert said <= commands | {"help"}, f"{page.name}: {sorted(said - commands)} are no commands"


def test_every_command_is_explained(commands: set[str]) -> None:
    text = section(REFERENCE.read_text(), "Commands")
    code = "\n".join([*spans(text), *fenced(text)])
    said = {*MAKE.findall(code), *COMMAND.findall(code)}
    assert commands <= said, f"reference.md lacks {sorted(commands - said)}"


def test_no_variable_carries_an_argument() -> None:
    for page in PAGES:
        found = re.findall(r"\bmake \S+ [A-Z]+=|\b(?:ARGS|Q|JSON|YES)=", page.read_text())
        assert not found, f"{page.name}: {found}"


def test_the_readme_is_short_and_begins_with_what_matters() -> None:
    text = README.read_text()
    first = "\n".join(text.splitlines()[:42])
    assert len(text.split()) <= 600
    assert all(text in first for text in ("make demo", "make test", "29,999", "Debian", "3.11 or 3.12"))


def test_the_readme_shows_the_figures_of_the_demo() -> None:
    (shown,) = [code for code in fenced(README.read_text()) if code.startswith("what  ")]
    code = "\n".join(file.read_text() for file in source_files("local/demo"))
    for line in shown.splitlines()[1:]:
        _, read_from = re.split(r"\s+[\d,]+\s+", line)
        assert f'"{read_from}"' in code


def test_a_failed_verification_is_shown_as_validate_writes_it() -> None:
    text = " ".join(OPERATING.read_text().split())
    expected = OffsetRanges.of({0: [(0, 26_999)], 3: [(0, 3_000)]})
    files = [
        FileStats("a", 0, 0, 0, 26_998, 26_999),
        FileStats("b", 3, 3, 0, 1_206, 1_207),
        FileStats("c", 3, 3, 1_209, 2_999, 1_791),
    ]
    assert verify(expected, files).message() in text
    published = [row for row in range(29_999) if row not in (12_073, 12_083)]
    assert f"taxi-data.csv.gz: {check_rows(29_999, counted(published), Bitmap()).message()}" in text
    assert ErrorCode.LOAD_NOT_VERIFIED.value in text


def test_the_demo_of_every_stream() -> None:
    text = section(REFERENCE.read_text(), "Commands")
    said = set(re.findall(r"local/run demo (\w+)", text)) | {demos.DEFAULT}
    assert said == set(demos.DEMOS)
    for name in said:
        demo = demos.chosen(name)
        assert (demo.folder is None) == (name in streams.names()), "else the stack would not have the stream"
        assert str(demo.result.relative_to(REPO)) in text


def test_how_to_choose_the_feed() -> None:
    row = next(row for row in table(REFERENCE.read_text(), "variable") if replay.VARIABLE in row[0])
    assert names(row[1])[:2] == [replay.PUBLIC, replay.REPLAY]
    assert "`public` (default)" in row[1]
    assert replay.chosen(None, None) == replay.PUBLIC
    text = section(DAGS.read_text(), "The Wikipedia stream")
    assert {f"SLUICE_FEED={feed} make up" for feed in (replay.PUBLIC, replay.REPLAY)} <= set(spans(text))
    assert "`user_agent`" in text


def code_variables() -> set[str]:
    declared = [REPO / "local" / "run", REPO / "docker-compose.yaml"]
    files = [*declared, *source_files("local", "plugins", "spark_jobs")]
    found = {name for file in files for name in VARIABLE.findall(file.read_text())}
    # Made from the service's name, or out of it; "SLUICE_…_PORT" in a message is no variable.
    return found | {ports.variable(service) for service in ports.DEFAULTS}


@each_page
def test_every_variable_is_one_of_the_code(page: Path) -> None:
    unknown = set(VARIABLE.findall(page.read_text())) - code_variables()
    assert not unknown, f"{page.name}: no code reads {sorted(unknown)}"


def test_every_variable_of_the_code_is_documented() -> None:
    said = {name for page in PAGES for name in VARIABLE.findall(page.read_text())}
    assert code_variables() <= said, f"nowhere documented: {sorted(code_variables() - said)}"


def test_the_default_ports() -> None:
    said = dict(re.findall(r"`(SLUICE_\w+_PORT)`\s\((\d+)\)", REFERENCE.read_text()))
    assert said == {ports.variable(service): str(port) for service, port in ports.DEFAULTS.items()}


# What it points at.


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), f"{page.name}: {target} leads nowhere"
        assert not anchor or anchor in slugs(found), f"{page.name}: {found.name} has no heading #{anchor}"


FILE = re.compile(r"[\w.\-*]+(/[\w.\-*]+)*/[\w.\-*]+\.(py|toml|md|avsc|gz|txt|in|xml|json|yaml)")
# Made at run time; keys in a bucket; the stream that docs/adding-a-stream.md makes up.
NOT_IN_THE_REPOSITORY = re.compile(r"^(build|nyc_taxi)/|rides")


@each_page
def test_every_path_exists(page: Path) -> None:
    tops = {entry.name for entry in REPO.iterdir() if entry.is_dir()}
    for code in spans(page.read_text()):
        looks_like_one = FILE.fullmatch(code) or (
            re.fullmatch(r"[\w./\-*]+", code) and "/" in code and code.split("/")[0] in tops
        )
        if looks_like_one and not NOT_IN_THE_REPOSITORY.search(code):
            assert list(REPO.glob(code.rstrip("/"))), f"{page.name}: there is no {code}"


# Examples, and services that a page is about.
OTHERS_HOST = re.compile(r"example\.com|\.amazonaws\.com$|\.confluent\.cloud$")


@pytest.mark.parametrize("page", [*PAGES, EXAMPLE], ids=lambda page: page.name)
def test_no_address_but_loopback_and_examples_and_no_place_of_one_machine(page: Path) -> None:
    text = page.read_text()
    hosts = {host for host in re.findall(r"https?://([\w.\-]+)", text) if not OTHERS_HOST.search(host)}
    # `checks` is a Service of k8s/.
    assert hosts <= {"127.0.0.1", "bucket.host", "host", "checks"}
    assert not re.findall(r"(?<![\w~.])/(?:root|home|work|tmp)/\S*", text)


# Tables against what they are tables of.


def test_the_words_of_a_query() -> None:
    text = section(ADDING.read_text(), "Queries")
    meanings = {names(row[0])[0]: row[4] for row in table(text, "query's key", "type", "default")}
    assert set(query.Mode) <= set(names(meanings["mode"]))
    keys = {names(row[0])[0]: row[4] for row in table(text, "sink's key", "type", "default")}
    assert set(sink.SinkKind) <= set(names(keys.pop("kind")))
    for kind, needed in sink.NEEDS.items():
        assert {key for key, meaning in keys.items() if f"`{kind}`:" in meaning} == set(needed)


def test_what_every_kind_of_sink_guarantees() -> None:
    rows = table(ARCHITECTURE.read_text(), "sink", "what it guarantees", "what it costs")
    assert {name for row in rows for name in names(row[0])} == set(sink.SinkKind)
    assert all(len(row) == 3 and all(row) for row in rows)


def test_what_the_queries_table_says() -> None:
    text = section(STORED.read_text(), "Table of the queries")
    words = [word for row in table(text, "query's key", "meaning") for word in names(row[0])]
    assert words == [field.name for field in dataclasses.fields(progress.QueryState)]
    summary = progress.summary("batch", "s", 1, {})
    assert set(summary) <= set(spans(text))
    columns = [
        column.split()[0] for column in constant("spark_jobs/common/queries/state_table.py", "COLUMNS")
    ]
    rows = table(text, "column of `queries.<stream>`", "meaning")
    assert [name for row in rows for name in names(row[0])] == columns


def test_the_example_of_a_platform_file_is_one_and_has_every_key() -> None:
    text = EXAMPLE.read_text()
    found = platform.parse(text, EXAMPLE.name)
    assert found.role in platform.ROLES
    for name, hint in typing.get_type_hints(platform.Platform).items():
        if isinstance(hint, types.UnionType) or not dataclasses.is_dataclass(hint):
            continue  # [supervisor] is the airflow role's alone, and `make up` writes it
        section = re.search(rf"^\[{name}\].*?(?=^\[|\Z)", text, re.M | re.S)
        assert section, f"[{name}] is missing"
        written = re.findall(r"^(\w+) = ", section[0], re.M)
        own = [field.name for field in dataclasses.fields(hint) if field.name != "catalog"]
        assert written == own, f"[{name}]"
    # Each kind of catalog has some of the keys.
    kinds = re.findall(r"^(?:# )?\[lake\.catalog\].*?(?=^#?$|\Z)", text, re.M | re.S)
    keys = {key for kind in kinds for key in re.findall(r"^(?:# )?(\w+) = ", kind, re.M)}
    assert keys == {field.name for field in dataclasses.fields(Catalog)}


def test_the_parts_of_a_stream() -> None:
    rows = table(ARCHITECTURE.read_text(), "term", "meaning")
    (words,) = [row[1] for row in rows if row[0] == "component"]
    components = {
        name: None for stream_name in streams.names() for name in streams.load(stream_name).components
    }
    assert sorted(names(words)) == sorted(components)


def test_the_routes_of_the_pages() -> None:
    routes = [route for route in make_app().app.routes if isinstance(route, APIRoute)]
    text = ARCHITECTURE.read_text()
    assert sorted(names(row[0])[0] for row in table(text, "route", "response")) == sorted(
        f"{navigation.PREFIX}{route.path}" for route in routes
    )
    page = f"{navigation.PREFIX}/results/{navigation.pages(streams.load_all())[0][0]}"
    assert f"http://127.0.0.1:{ports.DEFAULTS['airflow']}{page}" in DAGS.read_text()


def test_the_headers_of_a_feeds_record() -> None:
    said = [names(row[0])[0] for row in table(ARCHITECTURE.read_text(), "header", "holds")]
    assert said == [
        records.EVENT_ID,
        records.SEQUENCE,
        records.POSITION,
        records.FEED,
        records.EVENT_BYTES,
    ]


def test_the_fields_of_an_event() -> None:
    (line,) = re.findall(r"^def read\(.*-> Event:\s+# (.+)$", ADDING.read_text(), re.M)
    assert re.findall(r"(\w+)(?: \([^)]*\))?(?:, |$)", line) == [
        field.name for field in dataclasses.fields(event.Event)
    ]


def test_the_states_of_a_heartbeat() -> None:
    said = [names(row[0])[0] for row in table(OPERATING.read_text(), "state", "meaning", "health")]
    assert said == [state.value for state in heartbeat.HeartbeatState]
    assert set(said) == set(HeartbeatState)


def test_what_a_snapshot_of_results_says() -> None:
    text = section(ARCHITECTURE.read_text(), "How queries are counted")
    source = (REPO / "spark_jobs" / "common" / "sinks" / "iceberg.py").read_text()
    assert set(re.findall(r'"(sluice\.[\w-]+)": ', source)) <= set(spans(text))


def test_every_behaviour_names_a_test() -> None:
    for behaviour, test, level in table(TESTING.read_text(), "behaviour", "test", "level"):
        file, name = names(test)[0].split("::")
        found = REPO / "tests" / file
        assert found.exists(), f"{behaviour}: no tests/{file}"
        assert f"\ndef {name}(" in found.read_text(), f"{behaviour}: no {name} in tests/{file}"
        assert level, behaviour


def test_every_command_of_the_tests() -> None:
    said = [names(row[0])[0] for row in table(TESTING.read_text(), "command", "what it runs")]
    assert said == [f"make {verb}" for verb in checks.COMMANDS]


def test_every_workload_of_the_measurements() -> None:
    rows = table(PERFORMANCE.read_text(), "workload", "question")
    assert {names(row[0])[0] for row in rows} == set(WORKLOADS)


def test_how_to_preview_a_query() -> None:
    text = section(OPERATING.read_text(), "Preview a query")
    (of, name), *_ = re.findall(r"python -m spark_jobs queries (\w+) --preview (\w+)", text)
    assert name in streams.load(of).queries


def test_every_health_has_a_section() -> None:
    text = section(OPERATING.read_text(), "Health statuses")
    assert re.findall(r"^#### (.+)$", text, re.M) == [health.value for health in Health]


def test_what_follows_each_health() -> None:
    follows = {
        **dict.fromkeys(NO_ACTION, "nothing"),
        **dict.fromkeys(RESTARTABLE, "restart"),
        **dict.fromkeys(LEFT_ALONE, "red until a person acts"),
        **dict.fromkeys(ALERTING, "red"),
    }
    rows = table(OPERATING.read_text(), "health", "meaning", "what follows")
    assert {Health(row[0][1 : row[0].index("]")]): row[2] for row in rows} == follows


def test_the_actions() -> None:
    rows = table(OPERATING.read_text(), "action")
    assert [names(row[0])[0] for row in rows] == [action.value for action in Action]


def test_the_columns_of_make_status() -> None:
    rows = table(section(OPERATING.read_text(), "`make status`"), "column", "meaning")
    assert [names(row[0])[0] for row in rows] == list(HEADERS)


def test_every_drill() -> None:
    rows = table(OPERATING.read_text(), "drill", "fault")
    assert sorted(names(row[0])[0] for row in rows) == sorted(DRILLS)
    assert f"in {len(DRILLS)} ways" in REFERENCE.read_text()


def recorded(file: Path) -> Iterator[tuple[str, set[str]]]:
    """(kind, keys) of every event that a module writes into a stream's history."""
    ordered = set(Request("", "", "", False, datetime.now(UTC)).document())
    functions = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in (node for function in functions for node in ast.walk(function)):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "record"):
            continue
        kind, document = node.args[:2]
        components = list(ast.walk(document))
        if isinstance(document, ast.Name):
            components = [part for value in assigned(functions, document.id) for part in ast.walk(value)]
        written = {
            str(key.value)
            for part in components
            if isinstance(part, ast.Dict)
            for key in part.keys
            if isinstance(key, ast.Constant)
        }
        by_order = any(isinstance(part, ast.Attribute) and part.attr == "document" for part in components)
        # What restarts is told the kind: restart or start.
        name = str(kind.value) if isinstance(kind, ast.Constant) else "restart"
        yield name, written | (ordered if by_order else set())


def assigned(functions: Iterable[ast.AST], name: str) -> Iterator[ast.expr]:
    """What a module's functions give a local name."""
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets):
            yield node.value


def test_every_kind_of_event() -> None:
    kinds = set(constant("plugins/sluice/ledger/keys.py", "EVENTS"))
    written: dict[str, set[str]] = {}
    for file in source_files("plugins"):
        for kind, document in recorded(file):
            written.setdefault(kind, set()).update(document)
    assert set(written) == kinds
    rows = table(section(OPERATING.read_text(), "History"), "kind", "when")
    assert {kind for row in rows for kind in names(row[0])} == kinds
    for row in rows:
        for kind in names(row[0]):
            if "the same" not in row[2]:
                assert set(names(row[2])) - {"schedule", "runtime"} == written[kind], kind


def test_the_position_of_a_feed() -> None:
    rows = table(STORED.read_text(), "field of a position", "meaning")
    said = {name for row in rows for name in names(row[0])}
    assert said == {one.name for one in dataclasses.fields(SavedPosition)} - {"ids"}


def test_the_rights_of_each_role() -> None:
    rows = {names(row[0])[0]: row[1:] for row in table(OWN_SYSTEMS.read_text(), "role", "Kafka ACL")}
    assert list(rows) == list(platform.ROLES)
    rules, policies = kafka_rules(["t"], ["r"]), roles.s3_policies()
    words = {"topic t": "Topic", "topic r": "Results", "group": "Group", "broker": "Cluster"}
    words[f"topic {topic.PROGRESS_TOPIC.name}"] = "Progress"
    words[f"topic {topic.POSITIONS_TOPIC.name}"] = "Positions"
    for role, (kafka, s3) in rows.items():
        granted: dict[str, tuple[set[str], set[str]]] = {}
        for rule in (rule for rule in rules if rule.user == kafka_user(role)):
            kind = words.get(rule.kind) or words.get(f"{rule.kind} {rule.name}") or "Transactional id"
            operations, places = granted.setdefault(kind, (set(), set()))
            operations.add(rule.operation.title().replace("_", ""))
            if rule.prefixed:
                places.add(f"{rule.name}*")
        said = {}
        for clause in filter(None, kafka.split(". ")):
            what, _, operations_said = clause.partition(": ")
            said[what.split(" `")[0]] = (set(operations_said.split(", ")), set(names(what)))
        assert said == granted, f"{role}, Kafka"
        allowed = {
            action.removeprefix("s3:")
            for statement in policies[role]["Statement"]
            for action in statement["Action"]
        }
        assert set(re.findall(r"\b[A-Z]\w+", s3)) == allowed, f"{role}, S3"


def constant(file: str, name: str) -> Any:
    """A module's constant, without importing the module (and Spark with it)."""
    for node in ast.parse((REPO / file).read_text()).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets):
            return ast.literal_eval(node.value)
    raise LookupError(f"{file} has no constant {name}")


def test_the_columns_of_the_tables() -> None:
    text = STORED.read_text()
    for name, head in (("OFFSET_COLUMNS", ("column", "type")), ("QUARANTINE", ("column", "meaning"))):
        columns = [column.split()[0] for column in constant("spark_jobs/common/lake/tables.py", name)]
        rows = table(text, *head)
        assert [column for row in rows for column in names(row[0])] == columns


def snapshot_keys() -> set[str]:
    """The properties of the snapshots of a stream's table and of its quarantine."""
    text = Path(summary.__file__).read_text()
    return set(re.findall(r'"(sluice\.[\w-]+)"', text)) - {summary.QUERIES, summary.QUERY}


def test_what_a_snapshot_and_the_ledger_say() -> None:
    text = STORED.read_text()
    said = [key for row in table(text, "key", "meaning") for key in names(row[0])]
    assert sorted(said) == sorted(snapshot_keys())
    objects = [names(row[0])[0] for row in table(text, "object", "holds")]
    of_run = (
        "plan",
        "produced",
        "baseline",
        "proof",
        "audit",
        "reconciliation",
        "change",
        "change-approval",
        "change-proof",
        "notified-<dag>-<event>-<start>",
        "findings-<task>",
        "compaction",
    )
    run = [ledger.run_key("R", name).replace("R", "<run id>", 1) for name in of_run]
    source = [ledger.planned_key("<source id>"), ledger.produced_key("<source id>")]
    source += [
        ledger.verified_key("<incarnation>", "<source id>", 0, same).replace(f"{0:019d}", "<end>")
        for same in ("", "<source id>")
    ]
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    heads = ledger.heads_key("<incarnation>", moment).replace(ledger.moment(moment), "<time>")
    source += [
        ledger.began_key("<incarnation>"),
        re.sub(r"\d{21}", "<countdown>", ledger.verified_until_key("<incarnation>", 1)),
        ledger.time_key("<incarnation>", moment).replace(ledger.moment(moment), "<time>"),
        re.sub(r"\d{17}", "<countdown>", heads),
    ]
    contents = ledger.contents_key("<incarnation>", "<object>", 1)
    source += [re.sub(r"\d{9}", "<countdown>", contents)]
    source += [ledger.table_key("<name>", "<uuid>"), ledger.rewrite_key("<rewrite id>")]
    source += [ledger.rewrite_key("<rewrite id>", up_to=True)]
    source += [ledger.portion_key("<digest>", "<digest>"), ledger.change_key("<change id>")]
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    key = ledger.history_key("<kind>", at, "<suffix>").replace(ledger.moment(at), "<moment>")
    event = re.sub(r"\d{17}", "<countdown>", key)
    kinds = {ledger.METADATA: "tables", ledger.MAINTENANCE: "complete"}
    kinds |= dict.fromkeys((ledger.NOTIFIED, ledger.UNDELIVERED, ledger.DELIVERED), "run")
    records = [event.replace("<kind>", kind).replace("<suffix>", suffix) for kind, suffix in kinds.items()]
    assert objects == [*source, *run, *records, event]
    assert ledger.moment(at) in OPERATING.read_text()
    for name in streams.names():
        for part in set(streams.load(name).components) - {"consumer"}:
            assert f"<ledger>/{ledger.history_name(name, part)}/" in OPERATING.read_text()


def test_the_exit_codes_of_a_consumer() -> None:
    codes = [row[0] for row in table(OPERATING.read_text(), "exit code", "meaning")]
    assert codes == [
        str(code) for code in (exits.STOPPED, exits.FENCED, exits.LOGIN_REFUSED, exits.CONFIGURATION, 1)
    ]
