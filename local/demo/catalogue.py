"""Which streams have a demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from local.demo.demo import Demo
from local.demo.feed import FeedDemo
from local.demo.hits import HitsDemo
from local.demo.taxi import TaxiDemo
from local.errors import Problem

DEMOS: Mapping[str, Callable[[], Demo]] = {
    "nyc_taxi": TaxiDemo,
    "isp_hits": HitsDemo,
    "wiki_changes": partial(FeedDemo, "wiki_changes"),
}
DEFAULT = "nyc_taxi"


def chosen(name: str) -> Demo:
    """The demo of a stream, by default the taxi's. Raises Problem naming those that there are."""
    if (name or DEFAULT) not in DEMOS:
        raise Problem(f"STREAM={name}: there are demos of {', '.join(DEMOS)}")
    return DEMOS[name or DEFAULT]()
