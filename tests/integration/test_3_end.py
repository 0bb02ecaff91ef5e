"""What comes last, because the stack's stream cannot be gone on with after it."""

from __future__ import annotations

from local.processes import of_stack
from local.stack import wait_until
from tests.integration.rig import LAND_SECONDS, SPEC, Rig


def test_a_topic_made_anew_is_noticed_though_it_has_grown_past_the_table(rig: Rig) -> None:
    after = Rig(rig.stack)
    after.ensure_stream()
    after.wait_for_everything()
    before, token = sorted(after.coordinates()), after.token()
    grown = {partition: end + 10 for partition, end in after.ends().items()}
    after.remake_topic(SPEC.topic.partitions)
    after.send({partition: after.trips(1) * count for partition, count in grown.items()})
    wait_until("the consumer's end", lambda: after.process()["statename"] == "EXITED", LAND_SECONDS)
    after.airflow.unpause(after.supervision)
    run_id = after.airflow.trigger(after.supervision)
    state = after.airflow.wait(after.supervision, run_id, LAND_SECONDS)
    tasks = {task["task_id"]: task["state"] for task in after.airflow.tasks(after.supervision, run_id)}
    assert (state, tasks["alarm"]) == ("failed", "failed"), tasks
    seen = after.airflow.xcom(after.supervision, run_id, "observe")["diagnosis"]
    assert seen["verdict"] == "recreated"
    assert "its id is" in seen["sentence"]
    assert (after.process()["statename"], after.token()) == ("EXITED", token), "it was restarted"
    after.stack.supervisor().startProcess(SPEC.program)
    wait_until("its second end", lambda: after.process()["statename"] == "EXITED", LAND_SECONDS)
    assert "the topic was made anew" in after.stream_log()
    assert (sorted(after.coordinates()), after.token()) == (before, token)


def test_down_leaves_no_process(rig: Rig) -> None:
    rig.stack.down()
    assert of_stack(rig.stack.home.id) == []
