# Every verb is `local/run <verb>`: see `make help`. Nothing here needs to be installed before.
.DEFAULT_GOAL := help
VERBS := help setup up down status logs demo drill sql check test test-all lint destroy lock
.PHONY: $(VERBS)

# SERVICE= (logs), STREAM= (demo), Q= (sql), YES=1 (destroy), JSON=1 (status), DRILL= and AT_ONCE=1 (drill), ARGS=
# (check, test, test-all: for pytest) reach the verb through its environment, so that no shell reads them again.
export SERVICE STREAM Q YES JSON DRILL AT_ONCE ARGS

$(VERBS):
	@local/run $@
