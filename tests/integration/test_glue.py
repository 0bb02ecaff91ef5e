"""A stack whose tables are in AWS Glue: a load, a change, maintenance and reconciliation through Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.runtime import roles
from local.stack.stack import Stack
from sluice.config.platform_sections.catalog import GLUE
from tests.integration.conftest import AIRFLOW_SETTINGS
from tests.integration.rig import DAG, SPEC, Rig
from tests.integration.streams import OVERRIDES
from tests.integration.test_change import CHANGE, RECONCILIATION, changed, findings
from tests.support import airflow_calls, glue_server, stacks
from tests.support.jvm import QUICK

# A whole stack is started for one test.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
MAINTENANCE = f"{SPEC.name}_maintenance"
ROWS, SECONDS = 300, 420
# So many small ones are rewritten.
MORE_FILES = 5


class OnGlue(Stack):
    """Every role's platform file names Glue in place of the embedded PostgreSQL; the keys are those of S3."""

    glue = ""

    def platform_documents(self) -> dict[str, roles.Document]:
        found = super().platform_documents()
        for document in found.values():
            document["lake"]["catalog"] = {"type": GLUE, "endpoint": self.glue}
        return found


@pytest.fixture(scope="module")
def on_glue(tmp_path_factory: pytest.TempPathFactory, dags: Path) -> Iterator[OnGlue]:
    made = OnGlue(
        tmp_path_factory.mktemp("stack-on-glue"),
        free_ports=True,
        dags=dags,
        overrides=OVERRIDES,
        java_options=QUICK,
        airflow_settings=AIRFLOW_SETTINGS,
    )
    with glue_server.running(tmp_path_factory.mktemp("glue")) as made.glue, stacks.running(made):
        yield made


@pytest.fixture
def rig(on_glue: OnGlue) -> Rig:
    made = Rig(on_glue)
    for dag in (DAG, f"{SPEC.name}_stream", CHANGE, MAINTENANCE, RECONCILIATION):
        made.airflow.wait_for_dag(dag)
        made.airflow.unpause(dag)
    return made


def maintained(rig: Rig, **conf: Any) -> Any:
    run_id = rig.airflow.trigger(MAINTENANCE, conf)
    state = rig.airflow.wait(MAINTENANCE, run_id, SECONDS)
    airflow_calls.print_failed(rig.airflow, MAINTENANCE, run_id)
    assert state == "success"
    return rig.airflow.returned(MAINTENANCE, run_id, "verify_compaction")["tables"][SPEC.table]


def test_a_stream_is_loaded_changed_compacted_and_reconciled(rig: Rig) -> None:
    first = rig.load(objects=[rig.put("glue-first.csv", rig.slice(0, ROWS))])
    assert first.state == "success"
    for _ in range(MORE_FILES):
        rig.send({0: rig.trips(5)})
        rig.wait_for_everything()
    before = sorted(rig.record_offsets())
    assert len(before) == ROWS + 5 * MORE_FILES
    replayed = changed(rig, action="replay", ranges="0=[2,20) 3=[0,5)")
    assert (replayed["published"], replayed["rows_out"]) == (23, 23)
    compacted = maintained(rig)
    assert compacted["files_before"] > compacted["files_after"] > 0
    assert findings(rig, full=True) == {}
    assert sorted(rig.record_offsets()) == before
    after = rig.load(objects=[rig.put("glue-after.csv", rig.slice(ROWS, ROWS))])
    assert after.state == "success"
    rig.assert_exact()
    # Nothing found a table elsewhere.
    assert rig.stack.lake("reader").catalog.properties["type"] == GLUE
    assert rig.named().metadata_location.startswith(f"s3://{roles.WAREHOUSE}/lake/raw.db/{SPEC.name}/")
