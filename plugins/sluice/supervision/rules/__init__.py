"""Health rules, pure: samples in, report out. Start with ``base``; ``assess`` chooses the component's."""
