"""A load: sources in, a proof out, or an error that names every gap, duplicate and missing row.

``sources`` has a class per kind of source; ``planning`` pins a load's sources with start offsets; what is
``known`` says which of them need not be sent; ``sending`` records the offsets that they were sent to;
``verification`` holds those and the rows against table and quarantine, and writes the proof; ``written`` is
what the load wrote, against the budget; ``announce`` says what its event may name. Each step can be repeated:
a plan is pinned by its first attempt. Start with ``planning/plan``, then ``verification/verify``.
"""
