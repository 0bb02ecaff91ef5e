"""What the runtime says when the API server refuses, hangs, or is away."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local.stack.stack import wait_until
from sluice.clients.processes.kubernetes import KubernetesRuntime
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.processes.status import ProcessState
from tests.k8s.world import IMAGE, NAMESPACE, PROGRAM, World
from tests.support.raising import raising


def test_runtimes_that_are_opened_again_leave_no_threads_or_sockets(world: World) -> None:
    config = world.config()

    def count() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    KubernetesRuntime(config).tail(PROGRAM)
    threads, files = count()
    for _ in range(30):
        KubernetesRuntime(config).tail(PROGRAM)
    after = count()
    assert after[0] <= threads
    # The stand-in's client opens one now and then.
    assert after[1] <= files + 3


def test_without_the_rights_of_the_base_nothing_is_done(world: World) -> None:
    world.core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "no-rights"}})
    runtime = KubernetesRuntime(world.config("no-rights"))
    asked: list[Callable[[], object]] = [
        lambda: runtime.status(PROGRAM),
        lambda: runtime.start(PROGRAM),
        lambda: runtime.stop(PROGRAM, 1),
        lambda: runtime.tail(PROGRAM),
    ]
    for request in asked:
        with raising(Refused, "403", "k8s/base", "no-rights") as caught:
            request()
        assert caught.value.code is ErrorCode.KUBERNETES_REFUSED
    with raising(Refused, "403"):
        KubernetesRuntime(world.config(namespace="default")).status(PROGRAM)
    world.core.delete_namespaced_service_account("no-rights", NAMESPACE)


def test_a_namespace_that_is_missing_is_said(world: World) -> None:
    config = Kubernetes("missing", IMAGE, kubeconfig=str(world.plane.kubeconfig))
    with raising(Refused, "404", "missing", "[kubernetes]"):
        KubernetesRuntime(config).start(PROGRAM)


def test_a_program_of_no_stream_is_missing(world: World) -> None:
    for program in ("stream-unknown", "stream-nyc_taxi-producer", "airflow"):
        with raising(Missing, program):
            world.runtime().status(program)


def test_what_the_api_server_refuses_is_said_with_its_field(world: World) -> None:
    config = world.config()
    runtime = KubernetesRuntime(Kubernetes(NAMESPACE, "", kubeconfig=config.kubeconfig))
    with raising(Refused, "422", "image", "[kubernetes]"):
        runtime.start(PROGRAM)


def test_a_stop_survives_a_restart_of_the_api_server(world: World) -> None:
    runtime = world.running()
    world.kubelet.answers = False
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(runtime.stop, PROGRAM, 60.0)
        wait_until("the deletion", lambda: "deletionTimestamp" in world.pod()["metadata"], 10, 0.1)
        world.plane.crash_api_server()
        time.sleep(1)
        assert not stopped.done()
        world.plane.up_api_server()
        world.kubelet.answers = True
        assert stopped.result(60).state is ProcessState.STOPPED
    # A client that has lost its connections.
    assert runtime.start(PROGRAM)
    world.wait_for(runtime, ProcessState.RUNNING)


def test_an_api_server_that_is_away_or_hangs_is_said_within_the_deadline(world: World) -> None:
    runtime = world.runtime(timeout=1.0)
    assert runtime.status(PROGRAM).state is ProcessState.STOPPED
    server = world.plane._processes["kube-apiserver"].pid
    requests: list[Callable[[], object]] = [
        lambda: runtime.status(PROGRAM),
        lambda: runtime.tail(PROGRAM),
        lambda: runtime.start(PROGRAM),
    ]
    os.kill(server, signal.SIGSTOP)
    try:
        for request in requests:
            began = time.monotonic()
            with raising(Unreachable, "does not answer", "127.0.0.1") as caught:
                request()
            assert time.monotonic() - began < 2.5
            assert caught.value.code is ErrorCode.KUBERNETES_UNREACHABLE
    finally:
        os.kill(server, signal.SIGCONT)
    world.plane.crash_api_server()
    try:
        for request in requests:
            with raising(Unreachable, "does not answer", "127.0.0.1"):
                request()
    finally:
        world.plane.up_api_server()
    assert runtime.start(PROGRAM)
