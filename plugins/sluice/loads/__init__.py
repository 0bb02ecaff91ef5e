"""A load: sources in, a proof out, or an error that names every gap, duplicate and missing row.

``sources`` has a class per kind of source; ``plan`` pins a load's sources with their start offsets,
``produced`` records the offsets that they were sent to. ``verified``, ``object_contents`` and ``partly_sent``
say which sources need not or may not be sent. ``verify`` holds the produced offsets and rows against table
and quarantine (``checks``), and records the ``proof``; ``audit`` holds what the load wrote (``inventory``)
against the budget; ``announce`` says what its event may name. Each step can be repeated: a plan is pinned by
its first attempt. Start with ``plan``, then ``verify``.
"""
