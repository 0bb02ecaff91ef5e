"""Who is compared: Sluice, the plain way, Connect's sink, and what each is asked to do.

In: the stack of a comparison and its records. Out: figures of one turn, after a check that every record
arrived. ``jobs`` produces and consumes, ``plain`` and ``connect`` are the other ways, ``others`` lets two of
them consume a topic that others fill; ``watch``, ``growth``, ``changes`` and ``supervision`` measure one side
of Sluice each, with ``idle_consumer`` and ``validate`` as the processes that they start. Start with ``jobs``.
"""
