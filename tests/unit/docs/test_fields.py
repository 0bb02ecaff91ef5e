"""A dataclass with more than four fields says of each what its name and type do not."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]
PRODUCT = ("plugins", "spark_jobs", "local", "bench")
# A class docstring says enough of this many.
MAX_UNDESCRIBED = 4
RECORD = re.compile(r"(dataclasses\.)?dataclass\b|(typing\.)?NamedTuple$")


def product_files() -> list[str]:
    patterns = [f"{root}/*.py" for root in PRODUCT]
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns], cwd=REPO, capture_output=True, text=True, check=True
    )
    # A file that is removed, and not yet from the index.
    return [name for name in listed.stdout.split("\0") if name and (REPO / name).exists()]


def undescribed(source: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line, name and fields without a description of each public class that has such fields."""
    comments: dict[int, bool] | None = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and is_record(node) and not node.name.startswith("_"):
            fields = {name: index for index, line in enumerate(node.body) if (name := field_name(line))}
            if len(fields) <= MAX_UNDESCRIBED:
                continue
            # Few files have such a class, and to find comments takes longer than to parse.
            comments = comment_lines(source) if comments is None else comments
            missing = [name for name, index in fields.items() if not is_described(node, index, comments)]
            if missing:
                yield node.lineno, node.name, missing


def is_record(node: ast.ClassDef) -> bool:
    return any(RECORD.match(ast.unparse(one)) for one in (*node.decorator_list, *node.bases))


def field_name(line: ast.stmt) -> str:
    """The name of the public field that ``line`` declares, else empty; a ClassVar is none."""
    if not isinstance(line, ast.AnnAssign) or "ClassVar" in ast.unparse(line.annotation):
        return ""
    name = ast.unparse(line.target)
    return "" if name.startswith("_") else name


def comment_lines(source: str) -> dict[int, bool]:
    """Line with a comment -> whether it has no code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: token.line.lstrip().startswith("#")
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def is_described(node: ast.ClassDef, index: int, comments: dict[int, bool]) -> bool:
    """By a docstring below, a comment above or beside, its Annotated type, or the class docstring."""
    field, below = node.body[index], node.body[index + 1 : index + 2]
    lines = range(field.lineno, (field.end_lineno or field.lineno) + 1)
    return (
        any(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in below)
        or comments.get(field.lineno - 1, False)
        or any(line in comments for line in lines)
        or is_annotated(field)
        or is_section(node, field)
        or field_name(field) in quoted_names(ast.get_docstring(node) or "")
    )


def is_annotated(line: ast.stmt) -> bool:
    """Whether it is a field of the type ``Annotated[type, "meaning"]``: a key of a declaration."""
    return isinstance(line, ast.AnnAssign) and ast.unparse(line.annotation).startswith("Annotated[")


def is_section(node: ast.ClassDef, field: ast.stmt) -> bool:
    """Whether the field is a section of a declaration, whose own keys have their meanings.

    ``local.reference.settings`` refuses any other field of a declaration without a meaning.
    """
    is_class = isinstance(field, ast.AnnAssign) and re.fullmatch(
        r"[A-Z]\w*( \| None)?", ast.unparse(field.annotation)
    )
    return bool(is_class) and any(map(is_annotated, node.body))


def quoted_names(text: str) -> set[str]:
    """The names in code spans, of ``[start, until)`` both; not those of a path or a call, as ``a.b()``."""
    spans = re.findall(r"(`{1,2})(?!`)(.+?)\1", text, re.S)
    return {name for _, span in spans for name in re.findall(r"(?<![\w.])\w+(?![\w.(])", span)}


def test_a_large_dataclass_describes_each_of_its_fields() -> None:
    found = [
        f"{name}:{line} {cls}: {', '.join(fields)}"
        for name in product_files()
        for line, cls, fields in undescribed((REPO / name).read_text())
    ]
    assert not found, "add a docstring below each of these fields: its unit, what None means, an example"


def source_of(head: str, fields: str) -> str:
    return f"{head}\n" + "".join(f"    {line}\n" for line in fields.split("; "))


LARGE = "a: int; b: int; c: int; d: int; e: int"


@pytest.mark.parametrize("head", ["@dataclass(frozen=True)\nclass A:", "class A(NamedTuple):"])
def test_a_field_without_a_description_is_found(head: str) -> None:
    ((_, name, missing),) = undescribed(source_of(head, LARGE))
    assert (name, missing) == ("A", ["a", "b", "c", "d", "e"])


@pytest.mark.parametrize(
    "fields",
    [
        '"""`a`, ``[b, c)``, ``d``: seconds."""; a: int; b: int; c: int; d: int; e: int; """Seconds."""',
        "# Seconds.; a: int; b: int  # Seconds.; # Seconds.; c: int; # Seconds.; d: int; e: int  # Seconds.",
        'a: Annotated[int, "seconds"]; b: B; c: B | None = None; d: Annotated[int, "s"]; e: B = field(B)',
        "a: int; b: int; c: int; d: int; E: ClassVar[int] = 1; _f: int = 0",
    ],
)
def test_a_description_may_have_each_of_its_forms(fields: str) -> None:
    assert not list(undescribed(source_of("@dataclass\nclass A:", fields)))


@pytest.mark.parametrize(
    "fields",
    [
        '"""`x.a` and `a()`, as `b`: a."""; a: int; b: int; c: int  # .; d: int  # .; e: int  # .',
        "x: int  # Not of a.; a: int; b: int  # .; c: int  # .; d: int  # .",
        'a: int; b: Annotated[int, "s"]; c: Annotated[int, "s"]; d: B; e: B',
    ],
)
def test_what_looks_like_a_description_of_it_is_none(fields: str) -> None:
    ((_, _, missing),) = undescribed(source_of("@dataclass\nclass A:", fields))
    assert missing == ["a"]


@pytest.mark.parametrize("head", ["@dataclass\nclass _A:", "class A:", "class A(Protocol):"])
def test_other_classes_need_no_descriptions(head: str) -> None:
    assert not list(undescribed(source_of(head, LARGE)))
