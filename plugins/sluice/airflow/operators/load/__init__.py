"""The steps of a load: each reads its params and calls ``loads`` or ``queries``."""
