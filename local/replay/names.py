"""Who edits and where: real wikis, and names for as many users as a load needs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# The wikis with most edits come first, as the feed is stretched by rank.
_WIKIPEDIAS = (
    "en de fr es ru it ja zh pl pt uk ar fa nl vi sv he cs ko id tr hu fi ca no ro sr bg da el sk hr hy eu "
    "lt et ce jv ms sl th hi bn ta te ka az kk uz be gl eo la cy sq mk bs lv ml mr ur sw tl is ga af"
)
SERVERS: tuple[tuple[str, str], ...] = (
    ("www.wikidata.org", "wikidatawiki"),
    ("commons.wikimedia.org", "commonswiki"),
    *((f"{language}.wikipedia.org", f"{language}wiki") for language in _WIKIPEDIAS.split()),
    *((f"{language}.wiktionary.org", f"{language}wiktionary") for language in ("en", "fr", "ms", "jv", "ru")),
    *((f"{language}.wikisource.org", f"{language}wikisource") for language in ("en", "fr", "pl", "de")),
)

# What a page must show as text and never as anything else.
HOSTILE = (
    '<img src=x onerror="alert(1)">',
    "</script><script>alert(2)</script>",
    "‮txt.exe\N{LEFT-TO-RIGHT OVERRIDE}",
    "<b>bold</b> &amp; <a href='javascript:alert(3)'>link</a>",
)


@dataclass(frozen=True)
class User:
    """Who made a change, and whether that is a bot."""

    name: str
    bot: bool


def users(known: Sequence[User], count: int, hostile: bool = False) -> list[User]:
    """So many users by rank: the recording's own first, then made-up ones; one in seven of those is a bot."""
    named = [*(User(name, False) for name in HOSTILE if hostile), *known]
    made = (User(f"Editor {n}", False) if n % 7 else User(f"Helper{n}Bot", True) for n in range(1, count + 1))
    return [*named, *made][: max(1, count)]


def by_rank(count: int, share: float) -> int:
    """The rank of something popular, 0 to `count` - 1, out of `share` in [0, 1): rank r comes up about
    1/(r + 1) as often as the first, as users and wikis do (Zipf's law)."""
    # The inverse of the log-uniform distribution function.
    return min(count - 1, int((count + 1) ** share) - 1)
