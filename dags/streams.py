"""The DAGs of every stream, from its stream.toml."""

from sluice.airflow.dags.streams import all_dags

globals().update({dag.dag_id: dag for dag in all_dags()})
