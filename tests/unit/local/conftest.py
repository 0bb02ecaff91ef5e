"""A stack's context out of thin air: nothing of it exists, nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.home import Home
from local.ports import DEFAULTS
from local.services.context import Context


@pytest.fixture
def context(tmp_path: Path) -> Context:
    home = Home(tmp_path / "home with % and 'quote'")
    home.prepare()
    return Context(
        home=home,
        ports=DEFAULTS,
        secrets=home.secrets(),
        python_env=Path("/cache/env"),
        spark_jars=Path("/cache/jars-spark"),
        kafka_jars=Path("/cache/jars-kafka"),
        minio=Path("/cache/minio"),
        java_home=Path("/java"),
        external=None,
    )
