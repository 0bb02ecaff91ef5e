"""Fields of forms: checked as Airflow checks them, each once, and stored as Airflow's own."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from airflow.sdk import Param as AirflowsParam
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from sluice.airflow import params
from sluice.airflow.params import Param


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The values that jsonschema was asked for, of a process that has checked none yet."""
    found: list[Any] = []
    validate = jsonschema.validate

    def counted(value: Any, *arguments: Any, **named: Any) -> None:
        found.append(value)
        validate(value, *arguments, **named)

    monkeypatch.setattr(jsonschema, "validate", counted)
    monkeypatch.setattr(params, "_known", set())
    return found


def limit(value: Any = 5, maximum: int = 9) -> Param:
    return Param(value, type="integer", maximum=maximum)


def test_what_fits_is_checked_once_for_all_dags(checked: list[Any]) -> None:
    for _ in range(300):
        made = ParamsDict({"limit": limit()})
        assert (made.validate(), copy.deepcopy(made).dump(), made["limit"]) == ({"limit": 5}, {"limit": 5}, 5)
    assert checked == [5]


def test_another_value_or_another_schema_is_checked_too(checked: list[Any]) -> None:
    made = ParamsDict({"limit": limit()})
    made.validate()
    made["limit"] = 8
    assert made.validate() == {"limit": 8}
    with pytest.raises(ParamValidationError):
        limit(8, maximum=7).resolve()
    assert checked == [5, 8, 8]


@pytest.mark.parametrize("value", [10, None, "5"])
def test_what_does_not_fit_is_refused_each_time(checked: list[Any], value: Any) -> None:
    for _ in range(2):
        assert limit(value).resolve(suppress_exception=True) is None
        with pytest.raises(ParamValidationError):
            limit(value).resolve()
        with pytest.raises(ParamValidationError):
            limit().resolve(value)
    assert len(checked) == 6


def test_a_field_without_a_value_is_refused() -> None:
    with pytest.raises(ParamValidationError, match="no default"):
        Param(type="integer").resolve()


def test_airflow_stores_it_as_its_own() -> None:
    stored = DagSerialization._serialize_params_dict(ParamsDict({"limit": limit()}))
    assert stored == DagSerialization._serialize_params_dict(
        ParamsDict({"limit": AirflowsParam(5, type="integer", maximum=9)})
    )
