"""Health rules, pure: samples in, report out. ``assess`` chooses between the rules of two kinds.

``consumer`` has those of a stream's consumer, ``component`` those of all others, ``base`` what both share.
Start with ``base``.
"""
