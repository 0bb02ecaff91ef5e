"""The stack as an object, on top of the services."""
