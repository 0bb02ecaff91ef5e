"""The pool of everything but supervision: its name and size are declared in one text."""

from __future__ import annotations

import pytest

from sluice.config import work_pool
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising


def test_one_slot_is_left_to_supervision() -> None:
    assert work_pool.parse(work_pool.declared(4)) == ("sluice_work", 3)
    assert work_pool.parse(work_pool.declared(1)) == ("sluice_work", 1)


def test_without_a_declaration_it_is_airflows_own() -> None:
    assert work_pool.name({}) == work_pool.name({work_pool.VARIABLE: ""}) == "default_pool"
    assert work_pool.name({work_pool.VARIABLE: "heavy:8"}) == "heavy"


@pytest.mark.parametrize("text", ["", "heavy", "heavy:0", "heavy:-1", ":3", "a b:3", "heavy:3:4"])
def test_what_is_no_pool_is_refused(text: str) -> None:
    with raising(ConfigError, "SLUICE_WORK_POOL", repr(text), "sluice_work:3"):
        work_pool.parse(text)
