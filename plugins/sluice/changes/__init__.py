"""A change of a stream's rows: replay, retry, revert, redo, replace, remove.

``plan`` turns what is asked for into a checked, counted and pinned plan, before anything is done; the job
``spark_jobs/common/maintenance`` prepares the rows that go and come on a branch and exchanges them in one
commit; the commit is verified from the table alone. Start with ``plan``.
"""
