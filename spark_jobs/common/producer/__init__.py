"""The bounded producer: source rows to a topic, each once, with its place in headers.

In: a load's plan (sources, their versions, the offsets where each begins). Out: a record per row with
source id and row number; a row that cannot be sent is in the quarantine with its reason. A repeated attempt
sends what is missing only: it reads from the topic what the one before it had sent.

Start with ``run``. ``objects`` reads CSV (``source_object``, by ``sluice.core.csv``), ``generated`` makes
rows, ``sending`` makes records of both.
"""
