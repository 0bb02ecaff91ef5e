"""The DAGs of every stream, from its declaration: steps, texts. Start with ``streams``."""
