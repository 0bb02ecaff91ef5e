"""The DAGs of every stream, from its declaration: steps, forms, texts. Start with ``streams``."""
