"""What a job's JVM is started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs.common.spark.session import forget_variables


@pytest.mark.parametrize(("role", "is_there"), [("consumer", False), ("producer", True)])
def test_the_jvm_gets_no_variable_that_only_the_platform_file_needs(
    role: str, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer's workers, which its JVM starts, read the file themselves."""
    path = tmp_path / f"{role}.toml"
    path.write_text('[kafka]\nusername = { env = "HOME" }\npassword = { env = "SLUICE_KAFKA_KEY" }')
    path.chmod(0o600)
    for name, value in {"SLUICE_PLATFORM_DIR": str(tmp_path), "SLUICE_KAFKA_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)
    forget_variables(role)
    assert ("SLUICE_KAFKA_KEY" in os.environ) is is_there
    assert "HOME" in os.environ
