"""Health rules: samples in, report out. Pure. ``assess`` chooses between ``consumer`` and ``component``."""
