"""Offsets: sets of them, and the verification that each is published or quarantined exactly once. Start with
``ranges``.
"""
