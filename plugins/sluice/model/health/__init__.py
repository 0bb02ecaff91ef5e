"""Health rules: samples in, report out."""
