"""Names of Jobs: one per component, within what Kubernetes and Spark take."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kubernetes.jobs import MAX_NAME, job_name
from sluice.config import streams
from sluice.config.reading.toml import IDENTIFIER, ConfigError
from sluice.config.stream import Component, StreamSpec
from tests.support.raising import raising

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
names = st.from_regex(IDENTIFIER, fullmatch=True).filter(
    lambda name: len(name) <= MAX_NAME - len("-producer") and not name.endswith("_")
)
components = st.sampled_from(["consumer", "producer", "queries"])


def _name(stream: str, component: str) -> str:
    spec: StreamSpec = replace(streams.load("nyc_taxi"), name=stream)
    return job_name(Component(component, "", ()), spec)


@given(names, components, names, components)
def test_two_components_never_have_the_same_job(a: str, one: str, b: str, other: str) -> None:
    assert LABEL.fullmatch(_name(a, one))
    assert (_name(a, one) == _name(b, other)) is ((a, one) == (b, other))


@pytest.mark.parametrize("stream", ["a_b", "a__b", "a_b_consumer", "a_consumer"])
def test_names_that_look_alike(stream: str) -> None:
    assert _name(stream, "consumer") == f"{stream.replace('_', '-')}-consumer"


def test_the_pods_of_executors_take_the_longest_name() -> None:
    longest = "a" * (MAX_NAME - len("-consumer"))
    # A pod's name ends with a dash and five letters; 47 is Spark's limit for it as a prefix.
    assert len(_name(longest, "consumer")) + 6 == 47
    with raising(ConfigError, f"{longest}b", MAX_NAME, "shorter"):
        _name(f"{longest}b", "consumer")


def test_a_name_that_cannot_be_a_label() -> None:
    with raising(ConfigError, "rides_", "underscore"):
        _name("rides_", "consumer")
