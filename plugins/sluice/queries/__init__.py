"""Results of continuous queries: compared with the lake's rows, and in time for charts.

In: results by group and window, from a sink and counted again from the lake's rows; progress of batches. Out:
each missing, extra and different group; buckets for charts. What the lake must have is counted by
``clients/lake/results/recount``; the task that asks both sides is ``airflow/operators/load/reconcile``.
Start with ``compare``.
"""
