"""Triggers: waiting, in the triggerer, without a worker's slot.

``wait`` polls until a component's work is done; ``health`` and ``expected_health`` watch a component;
``requests`` keeps a request that hangs from blocking others. Start with ``base``.
"""
