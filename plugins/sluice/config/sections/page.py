"""``[queries.<name>.page]`` of a ``stream.toml``: what the page of a query's results calls its groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown

# In Airflow's menu.
MAX_TITLE = 100
# In a table's head, and on a button.
MAX_WORD = 30
# The word of the page's address for groups of every kind.
ALL = "all"


@dataclass(frozen=True)
class Words:
    one: Annotated[str, "the word for one such group"]
    many: Annotated[str, "the word for several such groups"]


@dataclass(frozen=True)
class Kind:
    """A column that divides the groups in two. Null is ``no``."""

    column: Annotated[
        str,
        "a boolean column of `group_by` that divides the groups, null as `no`; without one leave out "
        "`page.kind`",
    ]
    no: Words
    yes: Words


@dataclass(frozen=True)
class Page:
    """A page of the newest windows of a query's Iceberg table, with the groups whose number is highest."""

    title: Annotated[
        str,
        "title of a page in Airflow with the newest windows of the query's Iceberg table; for no page leave "
        "out `page`",
    ]
    name: Annotated[str, "the column of `group_by` whose values name the groups"]
    names: Words
    counted: Annotated[str, "the word for several of what the first of `aggregates`, a `count`, counts"]
    ranked: Annotated[str, "the groups, as in *the ten top zipcodes*; default: `page.names.many`"] = ""
    kind: Kind | None = None

    @property
    def columns(self) -> list[str]:
        return [self.name, *([self.kind.column] if self.kind else [])]

    @property
    def kinds(self) -> list[Words]:
        """Words for the column's False and True; empty without such a column."""
        return [self.kind.no, self.kind.yes] if self.kind else []

    @property
    def choices(self) -> dict[str, bool | None]:
        """Word of the page's address -> the kind whose groups are shown, None for all."""
        return {ALL: None} | {words.many: bool(kind) for kind, words in enumerate(self.kinds)}


def check(
    page: Page,
    group_by: Sequence[str],
    aggregates: Mapping[str, str],
    table: str,
    refuse: Callable[[str], ConfigError],
) -> None:
    """``table``: the query's Iceberg table, or empty. Raises what ``refuse`` makes of a problem."""
    if not table:
        raise refuse(f"page {shown(page.title)} without a table. Fix: add a sink of kind iceberg")
    if sorted(page.columns) != sorted(group_by):
        raise refuse(
            f"page {shown(page.title)} has the columns {', '.join(page.columns)}, and group_by is "
            f"{', '.join(group_by)}. Fix: make name one of group_by, and kind.column the other, if any"
        )
    # What is distinct in two groups may be the same: their sum says nothing.
    if next(iter(aggregates.values()), "") != "count":
        raise refuse(
            f"page {shown(page.title)} adds up the first of the aggregates, {shown(dict(aggregates))}. Fix: "
            "put one that is count first"
        )
    for key, text in _texts(page):
        most = MAX_TITLE if key == "title" else MAX_WORD
        if not text.strip() or len(text) > most:
            raise refuse(f"page {key} {shown(text)}. Fix: use 1 to {most} characters")
    if len(page.choices) != len(page.kinds) + 1:
        raise refuse(
            f"page kinds {', '.join(words.many for words in page.kinds)}: the page's address could not tell "
            f"them, and {ALL}, apart. Fix: use other words"
        )


def _texts(page: Page) -> Iterator[tuple[str, str]]:
    yield "title", page.title
    yield "counted", page.counted
    if page.ranked:
        yield "ranked", page.ranked
    words = {"names": page.names} | dict(zip(("kind.no", "kind.yes"), page.kinds, strict=False))
    for key, of in words.items():
        yield f"{key}.one", of.one
        yield f"{key}.many", of.many
