"""What a batch wrote, and the proof of it before ``main`` moves.

In: the data files of a commit and the rejected records beside them. Out: which offsets and which rows of
sources they hold, from the files' bounds where these are conclusive, else from their offset columns. It
promises that a batch whose files hold another set of offsets than it read is never published.

Start with ``written_batch``. ``added_file`` is a file as its manifest describes it, ``read_offsets`` reads
the columns.
"""
