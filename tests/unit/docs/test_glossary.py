"""Names that gave way to the field's own words do not come back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
FOLDERS = ("dags", "plugins", "spark_jobs", "local", "bench", "tests")
# Old name -> the one in its place.
RENAMED = {
    "AnnounceOperator": "EmitAssetEventOperator",
    "CheckCompactionOperator": "VerifyCompactionOperator",
    "CheckSinksOperator": "CompareSinksOperator",
    "DamagedObject": "CorruptObject",
    "Diagnosis": "HealthReport",
    "EventProof": "SourceCheck",
    "LandedSensor": "PublishedSensor",
    "LandedTrigger": "PublishedTrigger",
    "OtherRows": "RowsDiffer",
    "PartOperator": "ComponentOperator",
    "ProofStatus": "VerificationStatus",
    "QueriesOwner": "QueryStateWriter",
    "RangeSet": "OffsetRanges",
    "ReadBack": "OffsetReader",
    "ReconcileSinksOperator": "CompareSinksOperator",
    "Rehearsal": "StagedRewrite",
    "RowProof": "SourceCheck",
    "SchemaConflict": "IncompatibleSchema",
    "Superseded": "Fenced",
    "TableOwner": "WriterLease",
    "Trickle": "TrafficGenerator",
    "Unproved": "VerificationFailed",
    "Verdict": "Health",
    "facts_of": "summary_of",
    "refuse_if_superseded": "raise_if_fenced",
    "take_over": "acquire",
}
OLD = re.compile(rf"\b(?:{'|'.join(RENAMED)})\b")


def sources() -> Iterable[Path]:
    """Yield all Python files but this one."""
    for folder in FOLDERS:
        yield from (path for path in sorted((REPO / folder).rglob("*.py")) if path != Path(__file__))


def test_no_old_name_comes_back() -> None:
    found = {
        str(path.relative_to(REPO)): names
        for path in sources()
        if (names := {name: RENAMED[name] for name in OLD.findall(path.read_text())})
    }
    assert not found, "file -> old name -> the name to use"


# Old word, in prose -> the term in its place. Code spans, code blocks and addresses are not prose.
WORDS = {
    r"anew": "again, rebuild, recreated",
    r"nobody|somebody|whoever": "no user, a person, the one that",
    r"take-overs?|takeovers?|tak(?:e|es|en|ing) over|took over": "acquire the lease, failover",
    r"verdicts?": "health status",
    r"genesis": "init",
    r"landed": "published",
    r"superseded": "fenced",
    r"wipe[sd]?": "destroy",
    r"lanes?": "target partition",
    r"poison(?:ed)?": "malformed",
    r"mend(?:s|ed|ing)?": "fix, repair, recover",
    r"coordinates": "(partition, offset), record offsets",
    r"proved|unproved|disproved": "verified",
    r"foreign records?": "external record",
    r"on hold|held|unobservable|cut off|falling behind": "suspended, unknown, source unavailable, lagging",
    r"beats?": "heartbeat",
    r"strays?": "unexpected offsets",
    r"agreement": "comparison",
    r"suspects|suspected": "possible duplicates",
}
PROSE = re.compile(rf"(?<![\w/`-])(?:{'|'.join(WORDS)})(?![\w/`-])", re.I)
# Old word, in names, comments and texts of the code -> the term in its place; besides those of WORDS.
CODE_WORDS = {
    r"owners?": "writer, writer lease",
    r"diagnos[ei]s": "health report",
    r"aside": "quarantined",
    r"hopeless": "permanent",
    r"alarms?": "alert",
    r"take_over|taken_over": "acquire the lease, failover",
}
# File -> a word that is another one's own there, and whose.
OTHERS = {
    "local/services/postgres.py": {"nobody": "a Unix user", "owner": "SQL"},
    "plugins/sluice/airflow/dags/make_dag.py": {"owner": "Airflow's, of a task"},
    "plugins/sluice/airflow/triggers/asset_event.py": {"owner": "who sends requests"},
    "plugins/sluice/airflow/triggers/requests.py": {"owner": "who sends requests"},
    "tests/dags/test_fuzzed_declarations.py": {"owner": "Airflow's, of a task"},
    "tests/dags/test_policies.py": {"owner": "Airflow's, of a task"},
    "tests/k8s/cluster/node.py": {"owner": "Unix, of a folder"},
    "tests/k8s/cluster/test_node.py": {"owner": "Unix, of a folder"},
    "tests/spark/test_jdbc_sink.py": {"nobody": "a Unix user", "owner": "SQL, and Unix, of a folder"},
    "tests/support/mariadb.py": {"nobody": "a Unix user"},
    "tests/unit/airflow/operators/load/test_lineage.py": {"owners": "OpenLineage"},
    "tests/unit/airflow/triggers/test_asset_event.py": {"owner": "who sends requests"},
    "tests/unit/config/test_notifications.py": {"alarm": "no event: it is refused"},
    "tests/unit/config/test_platform.py": {"owner": "Unix, of a file"},
    "tests/unit/local/containers/test_env_file.py": {"owner": "Unix, of a file"},
}
# Words of WORDS that are common verbs in code.
VERBS = r"foreign records?", r"on hold|held|unobservable|cut off|falling behind"
# A part of a name is a word, too.
CODE = re.compile(rf"(?<![a-z])(?:{'|'.join({**WORDS, **CODE_WORDS}.keys() - VERBS)})(?![a-z])", re.I)
# No subject and no verb: a stranger has to guess both.
OF = re.compile(r'(?:"""|# )Of .*')


def texts() -> Iterable[Path]:
    yield REPO / "README.md"
    yield from sorted((REPO / "docs").glob("*.md"))
    yield from sorted((REPO / "docs").glob("*.toml"))
    yield from sorted((REPO / "spark_jobs").glob("*/stream.toml"))


def prose(path: Path) -> str:
    """A page without code and addresses; a TOML file as it is: its comments and titles are prose."""
    text = path.read_text()
    if path.suffix == ".toml":
        return text
    text = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"(`{1,2})(?!`).+?(?<!`)\1(?!`)", "`", text, flags=re.S)
    return re.sub(r"\]\([^)]*\)", "]", text)


def old_words(code: str) -> set[str]:
    return {match.lower() for match in CODE.findall(code)}


def test_no_old_word_comes_back_in_prose() -> None:
    found = {
        str(path.relative_to(REPO)): words
        for path in texts()
        if (words := sorted({match.lower() for match in PROSE.findall(prose(path))}))
    }
    assert not found, "file -> old words; WORDS has the term to use"


def test_no_old_word_comes_back_in_code() -> None:
    found = {
        name: words
        for path in sources()
        if (words := old_words(path.read_text()) - set(OTHERS.get(name := str(path.relative_to(REPO)), {})))
    }
    assert not found, "file -> old words; WORDS and CODE_WORDS have the term to use, OTHERS the exceptions"


def test_no_comment_and_no_docstring_begins_with_of() -> None:
    found = {
        str(path.relative_to(REPO)): lines for path in sources() if (lines := OF.findall(path.read_text()))
    }
    assert not found, "file -> comments and docstrings to begin with a noun or an imperative"


def test_each_exception_is_needed() -> None:
    found = {name: old_words((REPO / name).read_text()) for name in OTHERS}
    assert found == {name: set(words) for name, words in OTHERS.items()}


def test_an_old_word_is_found_in_parts_of_names() -> None:
    found = old_words("def test_an_owner_is_Superseded(): x.take_over(); disowner, ownership, LANE")
    assert found == {"owner", "superseded", "take_over", "lane"}


def test_an_old_word_is_found_in_prose_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It begins Anew, `anew`, [x](anew.md).\n```sh\nanew\n```\nNobody takes over.\n")
    assert PROSE.findall(prose(page)) == ["Anew", "Nobody", "takes over"]
