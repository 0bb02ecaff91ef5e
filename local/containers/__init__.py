"""The stack in containers: what `docker-compose.yaml` starts, from the code of the embedded stack."""
