"""The keys of notifications.toml, and what is wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config.notifications import FILE, Event, Notifications, load, parse
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising

STREAMS = ["nyc_taxi", "wiki_changes"]
MAIL = '[[notify]]\nnotifier = "smtp"\n[notify.arguments]\nto = "ops@example.com"\n'


def test_a_rule_is_for_all_events_of_all_streams_unless_it_says_which() -> None:
    (every,) = parse(MAIL, FILE, STREAMS).notify
    assert all(every.covers(event, stream) for event in Event for stream in STREAMS)
    narrow = MAIL.replace('"smtp"\n', '"smtp"\nevents = ["alert"]\nstreams = ["nyc_taxi"]\n')
    (one,) = parse(narrow, FILE, STREAMS).notify
    assert [(e, s) for e in Event for s in STREAMS if one.covers(e, s)] == [(Event.ALERT, "nyc_taxi")]
    assert parse(narrow, FILE, STREAMS).covering("wiki_changes") == []
    assert every.id != one.id


def test_smtp_takes_its_texts_from_the_notification() -> None:
    (mail,) = parse(MAIL, FILE, STREAMS).notify
    assert mail.values == {
        "to": "ops@example.com",
        "subject": "{{ sluice.subject }}",
        "html_content": "{{ sluice.html }}",
    }
    (own,) = parse(f'{MAIL}subject = "x"\n', FILE, STREAMS).notify
    assert own.values["subject"] == "x"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("notify = 1", ["notify", "list"]),
        ("[[notify]]\n", ["notifier", "missing"]),
        (f"{MAIL}[[notfy]]\n", ["notfy", "notify"]),
        (MAIL.replace('"smtp"', '"smtp"\nevent = ["alert"]'), ["event", "events"]),
        (MAIL.replace('"smtp"', '"mail"'), ["notify 1 notifier", "mail", "smtp"]),
        (MAIL.replace('"smtp"', '"smtp"\nevents = ["alarm"]'), ["notify 1 events", "alarm", "alert"]),
        (MAIL.replace('"smtp"', '"smtp"\nstreams = ["taxi"]'), ["notify 1 streams", "taxi", "nyc_taxi"]),
        (MAIL.replace('"smtp"', '"smtp"\nevents = []'), ["events", "empty"]),
        ('[[notify]]\nnotifier = "smtp"\n', ["notify 1 arguments", "to"]),
        ("[[notify", ["TOML"]),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(text: str, named: list[str]) -> None:
    with raising(ConfigError, FILE, *named):
        parse(text, FILE, STREAMS)


def test_where_rules_are_used_a_stream_that_is_gone_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    gone = MAIL.replace('"smtp"', '"smtp"\nstreams = ["gone", "nyc_taxi"]')
    found = parse(gone + MAIL, FILE, STREAMS, is_strict=False)
    assert "'gone' is unknown" in caplog.text
    assert [len(found.covering(stream)) for stream in STREAMS] == [2, 1]
    for wrong in (gone.replace('"smtp"', '"mail"'), MAIL.replace('"smtp"', '"smtp"\nstreams = []')):
        with raising(ConfigError, FILE):
            parse(wrong, FILE, STREAMS, is_strict=False)


def test_without_a_file_there_are_no_rules(tmp_path: Path) -> None:
    assert load(STREAMS, {}) == load(STREAMS, {DIRECTORY_VARIABLE: str(tmp_path)}) == Notifications()
    file = tmp_path / FILE
    file.write_text(MAIL)
    file.chmod(0o600)
    assert len(load(STREAMS, {DIRECTORY_VARIABLE: str(tmp_path)}).notify) == 1
    file.chmod(0o644)
    with raising(ConfigError, str(file), "chmod 600"):
        load(STREAMS, {DIRECTORY_VARIABLE: str(tmp_path)})
