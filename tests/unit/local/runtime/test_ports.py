"""Ports: the environment wins, then what was kept; a taken one is named with its user and its variable."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from local.base import UsageError
from local.runtime import ports
from tests.support.raising import raising


def test_defaults_kept_and_environment() -> None:
    assert ports.choose({}, {}) == ports.DEFAULTS
    chosen = ports.choose({"kafka": 20001, "minio": 20002}, {"SLUICE_KAFKA_PORT": "20003"})
    assert (chosen["kafka"], chosen["minio"]) == (20003, 20002)


@pytest.mark.parametrize("text", ["x", "80", "65536", "-1", "19000.5"])
def test_no_port(text: str) -> None:
    with raising(UsageError, "SLUICE_MINIO_PORT", repr(text)):
        ports.choose({}, {"SLUICE_MINIO_PORT": text})


def test_two_services_on_one_port() -> None:
    with raising(UsageError, 19092, "kafka", "airflow"):
        ports.choose({}, {"SLUICE_AIRFLOW_PORT": "19092"})


def test_free_ports_are_searched_where_a_process_is_told_to() -> None:
    assert ports.free_range({}) == ports.free_range({"SLUICE_FREE_PORTS": ""}) == ports.FREE
    assert ports.free_range({"SLUICE_FREE_PORTS": "20100-20199"}) == range(20100, 20200)


@pytest.mark.parametrize("text", ["20100", "x-20199", "20100-", "20199-20100", "80-20199", "20100-20102"])
def test_no_range_of_ports(text: str) -> None:
    with raising(UsageError, "SLUICE_FREE_PORTS"):
        ports.free_range({"SLUICE_FREE_PORTS": text})


@pytest.mark.usefixtures("socket_enabled")
def test_free_ports_come_from_the_range_and_are_not_those_of_others() -> None:
    narrow = {"SLUICE_FREE_PORTS": "19100-19119", "SLUICE_KAFKA_PORT": "19101"}
    chosen = ports.choose({"minio": 19102}, narrow, free=True)
    assert set(chosen.values()) <= set(ports.free_range(narrow))
    assert len(set(chosen.values())) == len(ports.DEFAULTS)


@pytest.mark.usefixtures("socket_enabled")
def test_a_range_that_is_used_up_is_named() -> None:
    with socket.socket() as holder:
        holder.bind((ports.HOST, 0))
        holder.listen()
        first = holder.getsockname()[1]
        last = first + len(ports.DEFAULTS) - 1
        with raising(UsageError, first, last, "SLUICE_FREE_PORTS"):
            ports.choose({}, {"SLUICE_FREE_PORTS": f"{first}-{last}"}, free=True)


def test_a_service_that_is_new_has_not_moved() -> None:
    kept = {"kafka": 20001, "a service that is no more": 1}
    assert not ports.moved(kept, {"kafka": 20001, "replay": 20002})
    assert ports.moved(kept, {"kafka": 20003, "replay": 20002})


@pytest.mark.usefixtures("socket_enabled")
def test_free_ports_are_free_and_different() -> None:
    chosen = ports.choose({}, {}, free=True)
    assert len(set(chosen.values())) == len(ports.DEFAULTS)
    ports.check(chosen, chosen)


@pytest.mark.usefixtures("socket_enabled")
def test_a_taken_port_is_named_with_its_user_and_the_fix() -> None:
    with socket.socket() as server:
        server.bind((ports.HOST, 0))
        server.listen()
        port = server.getsockname()[1]
        with pytest.raises(UsageError) as caught:
            ports.check({"kafka": port}, ["kafka"], timeout_seconds=0.2)
    assert f"port {port} for kafka is taken by process {os.getpid()} (" in str(caught.value)
    assert "set SLUICE_KAFKA_PORT to a free port" in str(caught.value)


@pytest.mark.usefixtures("socket_enabled")
def test_a_port_that_is_let_go_in_time_is_waited_for() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        letting_go = threading.Timer(0.2, holder.close)
        letting_go.start()
        ports.check({"kafka": port}, ["kafka"], timeout_seconds=10)
        letting_go.join()
