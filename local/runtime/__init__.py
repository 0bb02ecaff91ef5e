"""The machine under the stack: directories, ports, processes, rights, passwords (``secrets``)."""
