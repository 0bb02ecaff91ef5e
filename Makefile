# Aliases of `local/run <command>`, for commands without arguments; `make help` lists all, with theirs.
# Nothing needs to be installed before.
.DEFAULT_GOAL := help
COMMANDS := help setup lock up down status logs demo drill destroy check test test-all lint bench k8s-check k8s-test compose-env compose-test
.PHONY: $(COMMANDS)

$(COMMANDS):
	@local/run $@
