"""A load: sources in, a proof out, or an error that names every gap, duplicate and missing row.

``plan`` pins the sources and records their offsets; ``verified``, ``object_contents`` and ``partly_sent`` say
which of them need not or may not be sent; ``checks`` holds the produced offsets and rows against table and
quarantine; ``inventory`` is what the load wrote, for the audit. Each step can be repeated: a plan is pinned
by its first attempt. Start with ``plan``.
"""
