"""``[records]`` of a ``stream.toml``: how the records of a topic that others fill become rows.

In: the section. Out: the columns that follow from it. Start with ``declaration``; ``checks`` is what types
do not say.
"""
