"""``[backfill]``: which keys an interval has, and declarations that name none or the same ones twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import backfill
from sluice.config.sections.backfill import Backfill
from tests.support import rides
from tests.support.raising import raising

MONTH = Backfill("@monthly", "taxi/yellow_%Y-%m*.csv*", "2009-01-01")


def declared(**changed: str) -> str:
    values = {"schedule": "@monthly", "pattern": "rides/%Y-%m*.csv", "start_date": "2009-01-01"} | changed
    return rides.TOML + "\n[backfill]\n" + "\n".join(f'{key} = "{value}"' for key, value in values.items())


def test_an_intervals_keys_have_the_date_of_its_begin_in_utc() -> None:
    assert MONTH.keys(datetime(2020, 6, 1, tzinfo=UTC)) == "taxi/yellow_2020-06*.csv*"
    east = timezone(timedelta(hours=2))
    assert MONTH.keys(datetime(2020, 6, 1, tzinfo=east)) == "taxi/yellow_2020-05*.csv*"
    assert backfill.literal_prefix("taxi/yellow_2020-06*.csv*") == "taxi/yellow_2020-06"
    assert MONTH.begins == datetime(2009, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("taxi/yellow_2020-06.csv", True),
        ("taxi/yellow_2020-06.csv.gz", True),
        ("taxi/yellow_2020-06_late.csv", True),
        ("taxi/yellow_2020-06/1.csv", False),
        ("taxi/yellow_2020-07.csv", False),
        ("taxi/yellow_2020-06xcsv", False),
        ("more/taxi/yellow_2020-06.csv", False),
    ],
)
def test_a_wildcard_matches_no_slash_and_a_dot_is_a_dot(key: str, is_one: bool) -> None:
    assert backfill.matches("taxi/yellow_2020-06*.csv*", key) is is_one


@pytest.mark.parametrize(
    ("schedule", "pattern"),
    [
        ("@yearly", "rides/%Y.csv"),
        ("@monthly", "rides/%Y/%m.csv"),
        ("@daily", "rides/%Y-%m-%d.csv"),
        ("@daily", "rides/%Y%j.csv"),
        ("@hourly", "rides/%Y-%m-%dT%H.csv"),
        ("0 6 * * 1", "rides/%Y-%m-%d.csv"),
        ("*/15 * * * *", "rides/%Y%m%d%H%M.csv"),
    ],
)
def test_a_pattern_with_the_schedules_fields_is_right(schedule: str, pattern: str) -> None:
    spec = streams.parse(declared(schedule=schedule, pattern=pattern), "rides")
    assert spec.backfill is not None
    assert (spec.backfill.pattern, spec.backfill.max_active_runs) == (pattern, 4)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"schedule": "@fortnightly"}, ("schedule", "'@fortnightly'", "@monthly")),
        ({"schedule": "61 * * * *"}, ("schedule", "'61 * * * *'")),
        ({"schedule": "0 0 1 * * *"}, ("schedule", "five fields")),
        ({"schedule": "@daily"}, ("several intervals", "'@daily'", "%d or %j")),
        ({"schedule": "0 6 * * 1"}, ("several intervals", "%d or %j")),
        ({"schedule": "0 6 1 * 1"}, ("several intervals", "%d or %j")),
        ({"schedule": "@hourly", "pattern": "rides/%Y%m%d.csv"}, ("several intervals", "%H")),
        ({"pattern": "rides/%m.csv"}, ("several intervals", "%Y")),
        ({"pattern": "rides/all.csv"}, ("several intervals", "%Y")),
        ({"pattern": "rides/%B-%Y-%m.csv"}, ("'%B'", "%j")),
        ({"pattern": "/rides/%Y-%m.csv"}, ("begin with a folder",)),
        ({"pattern": "*/%Y-%m.csv"}, ("begin with a folder",)),
        ({"pattern": "rides/[ab]%Y-%m.csv"}, ("'['",)),
        ({"pattern": "other/%Y-%m.csv"}, ("'rides/'", "[csv] prefix")),
        ({"pattern": "rides/../other/%Y-%m.csv"}, ("'rides/'", "[csv] prefix")),
        ({"start_date": "01.01.2009"}, ("start_date", "'01.01.2009'", "2019-01-31")),
    ],
)
def test_a_wrong_declaration_is_named_with_its_fix(changed: dict[str, str], words: tuple[str, ...]) -> None:
    with raising(ConfigError, "rides", "Fix: ", *words):
        streams.parse(declared(**changed), "rides")


def test_only_files_have_intervals_and_runs_are_one_or_more() -> None:
    feed = '[feed]\nurl = "http://a"\nuser_agent = "a"\nevent_id = "id"\nevent = "event:read"\n'
    text = declared().replace('[csv]\ntime_formats = ["dd.MM.yyyy HH:mm"]\n', feed)
    text = text.replace('schema = "schema.avsc"', 'schema = "schema.ddl"\ndecode = "transforms:rows"')
    with raising(ConfigError, "[backfill]", "[feed]", "only files"):
        streams.parse(text, "rides")
    with raising(ConfigError, "max_active_runs is 0", "at least 1"):
        streams.parse(declared() + "\nmax_active_runs = 0", "rides")
