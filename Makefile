# Every target is `local/run <target>`: see `make help`. Nothing needs to be installed before.
.DEFAULT_GOAL := help
COMMANDS := help setup up down status logs demo drill sql put airflow batches trace check test test-all k8s-check k8s-test k8s-render compose-env compose-test lint bench python destroy lock
.PHONY: $(COMMANDS)

# SERVICE= (logs), STREAM= (demo), Q= (sql), FILE= and KEY= (put), YES=1 (destroy), JSON=1 (status), DRILL= and
# TRIGGER_IMMEDIATELY=1 (drill), SCALE= and WORKLOAD= (bench), ARGS= (airflow, batches, trace, compose-env, k8s-render;
# check, test, test-all, k8s-check, k8s-test, compose-test: for pytest; bench; python) reach the command through its environment: no shell reads them again.
export SCALE WORKLOAD SERVICE STREAM Q FILE KEY YES JSON DRILL TRIGGER_IMMEDIATELY ARGS

$(COMMANDS):
	@local/run $@
