"""The DAG that looks at the connections of all roles, once a day."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, CronTriggerTimetable

from sluice.airflow.dags import docs
from sluice.airflow.dags.make_dag import make_dag
from sluice.airflow.operators.maintenance.connections import CheckConnectionsOperator
from sluice.config.notifications import INSTALLATION
from sluice.notify.occasions import CONNECTIONS

# Once a day: a certificate is told of two weeks before its end. At an hour, and not when the DAG is new, as
# without a start date: an installation's first minutes are those in which its ends are started. A run that
# was missed, since the scheduler was off, is made up for. Airflow takes False as if nothing were said: a DAG
# that is new in the first tenth of a day after the hour would run at once.
SCHEDULE = CronTriggerTimetable("17 5 * * *", timezone="UTC", run_immediately=timedelta(0))


def connections_dag() -> DAG:
    """``sluice_connections``, with one task."""
    with make_dag(
        f"{INSTALLATION}_{CONNECTIONS}",
        "Sluice: connections",
        "Asks each end of the platform files for its login, certificates, clock and rights",
        tags=["connections", INSTALLATION],
        stream=INSTALLATION,
        retries=1,
        retry_delay=timedelta(minutes=5),
        task_timeout=timedelta(minutes=15),
        schedule=SCHEDULE,
        start_date=None,
        # No one misses it while it is paused, and what it finds would wait unseen.
        is_paused_upon_creation=False,
    ) as dag:
        task = CheckConnectionsOperator(task_id="check_connections")
    dag.doc_md = docs.connections(task)
    return dag
