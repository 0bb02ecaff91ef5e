"""Loads through Airflow on a Kafka and an S3 of others, whose tokens, sessions and certificates end within
seconds: exact, by the processes that were started; and what is said once nothing renews them any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.stack.stack import wait_until
from sluice.core.error_codes import ErrorCode
from sluice.core.processes import exits
from tests.integration.rig import DAG, SPEC, Rig
from tests.integration.streams import OVERRIDES
from tests.integration.supervision import supervise
from tests.support import stacks
from tests.support.jvm import QUICK
from tests.support.logged_in_stack import SESSION_SECONDS, TOKEN_SECONDS, LoggedInStack, Logins
from tests.support.traffic import TrafficGenerator, lost_and_duplicated, published

# A whole stack is started for two tests.
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]
STREAM = f"{SPEC.name}_stream"
ROWS, MORE_ROWS = 10_000, 200
# So slowly that a load outlasts several tokens and sessions.
BYTES_PER_SECOND = 40_000
LOGIN_SECONDS, LOAD_SECONDS, ANSWER_SECONDS = 120, 900, 60


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logins]:
    made = Logins(tmp_path_factory.mktemp("ending-logins"))
    try:
        made.broker.make_topic(SPEC.topic.name)
        made.write()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def logged_in(
    tmp_path_factory: pytest.TempPathFactory, dags: Path, logins: Logins
) -> Iterator[LoggedInStack]:
    made = LoggedInStack(
        tmp_path_factory.mktemp("stack-of-logins"),
        free_ports=True,
        dags=dags,
        overrides=OVERRIDES,
        java_options=QUICK,
        # None that gives up a slow worker, or a slow API, soon: two more servers take the machine's time.
        airflow_settings={
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "WORKERS__EXECUTION_API_TIMEOUT": str(ANSWER_SECONDS),
        },
    )
    made.logins = logins
    with stacks.running(made):
        yield made


@pytest.fixture
def rig(logged_in: LoggedInStack) -> Iterator[Rig]:
    made = Rig(logged_in)
    # Servers of two more stacks run beside it.
    made.airflow = logged_in.airflow(timeout=ANSWER_SECONDS)
    for dag in (DAG, STREAM):
        made.airflow.wait_for_dag(dag)
        made.airflow.unpause(dag)
    yield made
    print(made.stream_log()[-4000:])


def test_a_load_beside_traffic_outlasts_several_tokens_and_sessions(rig: Rig, logins: Logins) -> None:
    rig.ensure_stream()
    pid, epoch = rig.status().pid, rig.epoch()
    logins.slow_down("producer", BYTES_PER_SECOND)
    traffic = TrafficGenerator(rig)
    traffic.start()
    asked, began = logins.asked, time.monotonic()
    try:
        source = rig.put("ending-logins.csv", rig.slice(0, ROWS))
        run = rig.finish(rig.start(objects=[source]), LOAD_SECONDS)
        seconds = time.monotonic() - began
    finally:
        assert traffic.stop() == 0, traffic.failures
    assert (run.state, set(run.tasks.values())) == ("success", {"success"})
    proof = run.xcom("validate")
    counts = {"status": "passed", "source_rows": ROWS, "published": ROWS}
    assert {name: proof[name] for name in counts} == counts
    rig.wait_for_everything()
    rig.assert_exact()
    rig.assert_batches()
    assert lost_and_duplicated(traffic.delivered, published(rig, traffic.span)) == (0, 0)
    # By the consumer that was there before, whose logins have ended several times.
    assert (rig.status().pid, rig.epoch()) == (pid, epoch)
    repeated = [task for task in run.tasks if rig.attempts(run.run_id, task) > 1]
    assert not repeated, "\n".join(run.log(task)[-4000:] for task in repeated)
    assert seconds > 3 * SESSION_SECONDS, "the load was too fast to show anything"
    renewed = logins.asked - asked
    fewest = int(seconds / TOKEN_SECONDS)
    assert renewed["consumer"] >= fewest, renewed
    assert renewed["producer"] >= 3, renewed


def test_what_nothing_renews_is_a_refused_login_and_goes_on_once_something_does(
    rig: Rig, logins: Logins
) -> None:
    rig.ensure_stream()
    rig.wait_for_everything()
    epoch = rig.epoch()
    with logins.left_to_end():
        time.sleep(SESSION_SECONDS)
        rig.send({0: rig.trips(3)})
        wait_until(
            "the refused login", lambda: rig.status().exit_status == exits.LOGIN_REFUSED, LOGIN_SECONDS
        )
        said = [line for line in rig.stream_log().splitlines() if ErrorCode.S3_LOGIN in line]
        assert said, rig.stream_log()
        assert all(
            "Token is expired" in line and "Fix: let what writes the token's file" in line for line in said
        )
    wait_until("the consumer to go on", lambda: rig.epoch() > epoch, LOGIN_SECONDS, 1)
    rig.wait_for_everything()
    run = supervise(rig)
    assert (run.state, run.did) == ("success", set()), run.log()
    after = rig.load(objects=[rig.put("after.csv", rig.slice(ROWS, MORE_ROWS))])
    assert after.state == "success"
    rig.assert_exact()
