"""A stack of its own for drills: its stream is supervised by schedule, that of the other tests is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.stack.stack import Stack
from sluice.config import streams
from tests.support import stacks
from tests.support.jvm import QUICK
from tests.support.stream import StreamUnderTest


@pytest.fixture(scope="package")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamUnderTest]:
    stack = Stack(tmp_path_factory.mktemp("drill-stack"), free_ports=True, java_options=QUICK)
    with stacks.running(stack):
        yield StreamUnderTest(stack, streams.load("nyc_taxi"))
