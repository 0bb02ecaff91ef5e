"""Connections and retries, shared by Airflow tasks and Spark jobs."""
