"""Results of continuous queries: compared with the lake's rows, and in time for charts."""
