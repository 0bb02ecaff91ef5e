"""Task ``validate``: its failure, and what it hands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.ledger.keys import NOT_VERIFIED, run_key
from sluice.loads.planning.plan import plan_of
from tests.support import lake as lakes
from tests.support.loads import Loads
from tests.support.raising import raising


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    made = Loads(tmp_path)
    made.upload("a", rows=4)
    made.produce("r")
    return made


def test_a_load_that_is_not_verified_fails_with_its_code_and_is_in_the_history(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    loads.lake.catalog.load_table("raw.nyc_taxi").delete("_kafka_offset = 2")
    with raising(AirflowFailException, "SLU-401", "verification failed", "1 gaps (0=[2,3))"):
        loads.validate("r")
    assert loads.ledger.get(run_key("r", "proof")) is None
    (record,) = [loads.ledger.get(key) for key in loads.ledger.keys(f"history/{NOT_VERIFIED}/")]
    assert record is not None
    assert record["run_id"] == "r"
    assert "gaps: nyc-avro-topic: 0=[2,3)" in capsys.readouterr().out


def test_the_limit_is_a_param(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(context: Any, _options: Any) -> None:
        (source,) = plan_of(loads.ledger, context["run_id"])["sources"]
        rejected = {
            "stage": "consumer", "reason": "bad", "_kafka_partition": 0, "_kafka_offset": loads.end + 3,
            "_source_id": source["source_id"], "_source_row": 3,
        }  # fmt: skip
        lakes.quarantine(loads.lake, [rejected])
        loads.commit([(source["source_id"], row) for row in range(3)], rejected=1)

    monkeypatch.setattr(loads, "_send", send)
    loads.upload("b", rows=4)
    loads.produce("b", objects=["nyc_taxi/b.csv"])
    with raising(AirflowFailException, "1 of 4 rows, 25.00 %", "the limit is 20 %"):
        loads.validate("b", max_quarantined_percent=20)
    assert loads.validate("b", max_quarantined_percent=25)["quarantined"] == 1
