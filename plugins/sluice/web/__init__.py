"""The pages inside Airflow: a FastAPI app behind Airflow's login, its static files, and the metrics.

In: a request of a user whose rights on the stream's DAGs are checked. Out: a page, JSON or Prometheus' text.
Data is cached for seconds, so that many viewers cost as much as one. Start with ``app`` (the routes), then
``data/sources``.
"""
