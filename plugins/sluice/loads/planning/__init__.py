"""Plan a load: its sources, each pinned once, and the offset ranges of what is sent. Start with ``plan``."""
