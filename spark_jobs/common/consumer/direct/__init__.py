"""A batch in Python: exact ranges of the topic into data files, by Python in Spark's tasks.

In: the offset ranges that Structured Streaming planned. Out: data files that no commit names yet, the
rejected records, the runs of sources, and an account of each range, for the writer to commit, verify and
publish. It promises what the writer promises of a batch; memory follows a piece of some MB, not a range.

Start with ``direct_rows``, which the writer calls. ``batch`` cuts ranges into tasks and runs these as a Spark
job, or those of a small batch in the driver itself. ``task`` reads its ranges and writes its file; ``piece``
makes the rows of a piece; ``rejected`` keeps what is not accepted.
"""
