"""Kubernetes: its API, the pods of streams and jobs, and what Kubernetes says of them.

``spark_application`` builds the resource of a job, ``application_status`` and ``observed_pod`` read what
became of it. A component is started by a runtime of ``clients/processes`` (``spark_operator``,
``kubernetes``), a bounded job by an operator of ``airflow/operators/jobs``.
"""
