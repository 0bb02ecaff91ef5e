"""One node for all tests of this folder: `make k8s-test`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.k8s.cluster.node import Node
from tests.k8s.cluster.running import running_node


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    with running_node() as found:
        yield found
