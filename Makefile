# Every verb is `local/run <verb>`: see `make help`. Nothing here needs to be installed before.
.DEFAULT_GOAL := help
VERBS := help setup up down status logs demo sql test lint wipe lock
.PHONY: $(VERBS)

# SERVICE= (logs), Q= (sql), YES=1 (wipe) reach the verb through its environment, so that no shell reads them again.
export SERVICE Q YES

$(VERBS):
	@local/run $@
