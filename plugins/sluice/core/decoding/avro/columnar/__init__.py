"""Values of one type at many positions at once, by NumPy, into arrays of Arrow.

``readers`` (with ``lists`` and ``decimals``) read them from ``bodies`` into ``columns``, ``arrays`` makes
arrays of these, and ``evolution`` makes arrays of an earlier schema those of the current one. Whatever is not
regular marks its record as odd; what was read of it is then of no use. Start with ``readers``.
"""
