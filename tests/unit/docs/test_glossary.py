"""Names that gave way to the field's own words do not come back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
FOLDERS = ("dags", "plugins", "spark_jobs", "local", "bench")
# Old name -> the one in its place.
RENAMED = {
    "AnnounceOperator": "EmitAssetEventOperator",
    "CheckCompactionOperator": "VerifyCompactionOperator",
    "CheckSinksOperator": "ReconcileSinksOperator",
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
    "Rehearsal": "StagedRewrite",
    "RowProof": "SourceCheck",
    "SchemaConflict": "IncompatibleSchema",
    "Superseded": "Fenced",
    "TableOwner": "WriterLease",
    "Trickle": "TrafficGenerator",
    "Unproved": "VerificationFailed",
    "Verdict": "Health",
    "facts_of": "sluice_properties",
    "refuse_if_superseded": "raise_if_fenced",
    "take_over": "acquire",
}
OLD = re.compile(rf"\b(?:{'|'.join(RENAMED)})\b")


def sources() -> Iterable[Path]:
    for folder in FOLDERS:
        yield from sorted((REPO / folder).rglob("*.py"))


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
    r"agreement": "reconciliation",
    r"suspects|suspected": "possible duplicates",
}
PROSE = re.compile(rf"(?<![\w/`-])(?:{'|'.join(WORDS)})(?![\w/`-])", re.I)


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


def test_no_old_word_comes_back_in_prose() -> None:
    found = {
        str(path.relative_to(REPO)): words
        for path in texts()
        if (words := sorted({match.lower() for match in PROSE.findall(prose(path))}))
    }
    assert not found, "file -> old words; WORDS has the term to use"


def test_an_old_word_is_found_in_prose_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("It begins Anew, `anew`, [x](anew.md).\n```sh\nanew\n```\nNobody takes over.\n")
    assert PROSE.findall(prose(page)) == ["Anew", "Nobody", "takes over"]
