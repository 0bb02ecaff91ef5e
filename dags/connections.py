"""The DAG that looks at the connections of all roles."""

from sluice.airflow.dags.connections_dag import connections_dag

sluice_connections = connections_dag()
