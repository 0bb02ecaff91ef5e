"""The lowest way out of the process, for Airflow's side and for Spark's jobs alike: connections, retries."""
