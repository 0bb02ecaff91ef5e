"""How a stream's process is started, stopped and looked at, wherever it runs."""
