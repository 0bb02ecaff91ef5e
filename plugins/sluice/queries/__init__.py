"""Results of continuous queries: compared with the lake's rows, and in time for charts.

In: results by group and window, from a sink and counted again from the lake's rows; progress of batches. Out:
each missing, extra and different group; buckets for charts. What the lake must have is counted by
``recount``, in the windows that ``windows`` chooses; ``sinks`` reads both sides at the same batch, for the
task ``compare_sinks`` and the demo. Start with ``compare``, then ``sinks``.
"""
