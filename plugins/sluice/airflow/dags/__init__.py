"""The DAGs of every stream, from its declaration.

Start with ``streams``, which puts the steps of loads, backfills, changes, maintenance and reconciliation
together. ``supervision_dags`` makes ``<stream>_stream`` and the DAGs of what is invalid; ``make_dag`` has
what all DAGs share; ``docs`` their texts. The forms are in ``airflow/forms``.
"""
