"""References of platform files: what each kind reads, and what is refused without showing the value."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.config import platform
from sluice.config.reading.references import References, SecretNotFound
from sluice.config.reading.toml import ConfigError, build, secrets, toml
from tests.support.raising import raising
from tests.unit.config.test_platform import PLATFORM

VALUE = "s3cret-of-the-test"
NAMED = 'secret_key = "hidden"'


@pytest.fixture
def private(tmp_path: Path) -> Callable[..., Path]:
    def write(content: str | bytes = VALUE, mode: int = 0o600) -> Path:
        path = tmp_path / "secret"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    return write


def read(reference: str, references: References | None = None, key: str = NAMED) -> platform.Platform:
    text = PLATFORM.replace(key, f"{key.split(' = ')[0]} = {reference}")
    assert text != PLATFORM
    return platform.parse(text, "consumer.toml", references)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_a_file_without_the_newline_at_its_end(
    private: Callable[..., Path], ending: str
) -> None:
    made = read(f'{{ file = "{private(VALUE + ending)}" }}')
    assert made.s3.secret_key == VALUE
    assert VALUE in secrets(made), "so that logs show *** for it"
    assert VALUE not in repr(made)


def test_a_file_is_read_again_with_the_platform_file(private: Callable[..., Path]) -> None:
    reference = f'{{ file = "{private()}" }}'
    assert read(reference).s3.secret_key == VALUE
    private("next")
    assert read(reference).s3.secret_key == "next"


def test_a_process_that_stays_sees_a_change_of_the_file_and_of_what_it_refers_to(
    private: Callable[..., Path], tmp_path: Path
) -> None:
    environ = {platform.DIRECTORY_VARIABLE: str(tmp_path)}
    file, secret = tmp_path / "reader.toml", private()
    nothing = platform.stamp("reader", environ)
    file.write_text(f'[s3]\nsecret_key = {{ file = "{secret}" }}\n')
    written = platform.stamp("reader", environ)
    assert nothing != written == platform.stamp("reader", environ)
    # As Kubernetes replaces it, and programs that write it completely or not at all.
    (tmp_path / "next").write_text(VALUE)
    (tmp_path / "next").rename(secret)
    assert platform.stamp("reader", environ) != written
    secret.unlink()
    gone = platform.stamp("reader", environ)
    file.write_text("[s3")
    assert platform.stamp("reader", environ) != gone, "no TOML"


def test_a_file_may_be_a_link_as_kubernetes_mounts_it(private: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(private())
    assert read(f'{{ file = "{tmp_path / "link"}" }}').s3.secret_key == VALUE


def test_a_secret_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read('{ env = "S3_KEY" }', References({"S3_KEY": VALUE})).s3.secret_key == VALUE
    monkeypatch.setenv("S3_KEY", VALUE)
    assert read('{ env = "S3_KEY" }').s3.secret_key == VALUE


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ('{ airflow_variable = "key" }', ("airflow_variable", "key", "password")),
        ('{ airflow_connection = "s3" }', ("airflow_connection", "s3", "password")),
        ('{ airflow_connection = "s3", part = "login" }', ("airflow_connection", "s3", "login")),
    ],
)
def test_airflow_is_asked_where_there_is_one(reference: str, expected: tuple[str, ...]) -> None:
    asked: list[tuple[str, ...]] = []

    def airflow(*given: str) -> str:
        asked.append(given)
        return VALUE

    assert read(reference, References({}, airflow)).s3.secret_key == VALUE
    assert asked == [expected]
    with raising(ConfigError, "secret_key: airflow_", "this process is none of them. Fix: name a file or"):
        read(reference, References({}))
    with raising(SecretNotFound, "not found. Fix: add it in Airflow under Admin"):
        read(reference, References({}, lambda *_: None))


def test_any_text_may_be_a_reference_and_one_that_is_no_secret_may_be_readable_for_all(
    private: Callable[..., Path],
) -> None:
    path = private("elsewhere", 0o644)
    assert read(f'{{ file = "{path}" }}', key='username = "sluice-consumer"').kafka.username == "elsewhere"
    with raising(SecretNotFound, "other users may read or change the file", f"Fix: chmod 600 {path}"):
        read(f'{{ file = "{path}" }}')


def test_the_address_of_a_feed_may_be_a_reference() -> None:
    text = PLATFORM + '[feeds]\nenv = { env = "FEED" }\n'
    made = platform.parse(text, "producer.toml", References({"FEED": "https://u:p@feed.test/x"}))
    assert made.feeds == {"env": "https://u:p@feed.test/x"}


def test_a_referenced_text_is_checked_as_a_written_one() -> None:
    with raising(ConfigError, "kafka security_protocol is 'TLS'"):
        read('{ env = "X" }', References({"X": "TLS"}), 'security_protocol = "SASL_PLAINTEXT"')
    with raising(ConfigError, "path_style", "is a dict. Fix: give a bool"):
        read('{ env = "X" }', References({"X": "true"}), "path_style = true")


@pytest.mark.parametrize("part", ["\n", "\r", "\0", "\xff"])
def test_a_file_with_more_than_a_line_is_refused_without_its_value(
    private: Callable[..., Path], part: str
) -> None:
    content = b"s3cret\xff" if part == "\xff" else f"s3cret{part}of-the-test\n"
    with raising(SecretNotFound, "consumer.toml s3 secret_key: file /", "Fix: ") as caught:
        read(f'{{ file = "{private(content)}" }}')
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None, "whose text has a byte of it"


@pytest.mark.parametrize("content", ["", "\n", "\r\n"])
def test_an_empty_reference_is_refused(private: Callable[..., Path], content: str) -> None:
    with raising(SecretNotFound, "secret_key: file /", "is empty. Fix: put the value there"):
        read(f'{{ file = "{private(content)}" }}')
    with raising(SecretNotFound, "environment variable X is empty. Fix"):
        read('{ env = "X" }', References({"X": content}))


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ('{ env = "X" }', "secret_key: environment variable X is not set. Fix: set it for this process"),
        ('{ file = "/nowhere/secret" }', "file /nowhere/secret cannot be read: No such file or directory"),
        ('{ file = "/dev/null" }', "/dev/null: is no file"),
        ('{ file = "my-secret" }', "file of a reference is no absolute path. Fix: begin it with /"),
        ('{ env = "my-secret" }', "env of a reference cannot be a variable's name"),
        ("{ env = 7 }", "env of a reference is no name. Fix: write it as { file"),
        ('{ vault = "my-secret" }', "a reference with ['vault']; it has one of file, env, airflow_variable"),
        ('{ file = "/x", env = "X" }', "a reference with ['env', 'file']; it has one of"),
        ('{ file = "/x", part = "login" }', "a reference with ['file', 'part']; it has one of"),
        ("{ }", "a reference with []; it has one of"),
        ('{ airflow_connection = "x", part = "my-secret" }', "Fix: use one of password, login, host"),
        ("7", "secret_key: it is a int. Fix: give a str, in quotes"),
    ],
)
def test_what_is_no_reference_is_refused(reference: str, words: str) -> None:
    with raising(ConfigError, words) as caught:
        read(reference, References({}))
    assert "my-secret" not in str(caught.value) or "part" in reference


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        ('{ env = "X" }', SecretNotFound),
        ('{ file = "/nowhere/secret" }', SecretNotFound),
        ('{ file = "/dev/null" }', SecretNotFound),
        ('{ airflow_variable = "key" }', SecretNotFound),
        ('{ file = "secret" }', ConfigError),
        ('{ vault = "secret" }', ConfigError),
    ],
)
def test_what_may_still_come_is_told_from_what_is_written_wrongly(
    reference: str, error: type[ConfigError]
) -> None:
    """A secret that is mounted a moment late, or deleted and made again, ends nothing for good."""
    with pytest.raises(ConfigError) as caught:
        read(reference, References({}, lambda *_: None))
    assert type(caught.value) is error


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with raising(ConfigError, "pipe: is no file"):
        read(f'{{ file = "{tmp_path / "pipe"}" }}')


def test_the_token_of_the_metrics_alone_is_followed_too(private: Callable[..., Path], tmp_path: Path) -> None:
    token = "t" * 24
    file = tmp_path / "airflow.toml"
    file.write_text(f'[metrics]\ntoken = {{ file = "{private(token)}" }}\n')
    file.chmod(0o600)
    assert platform.load_metrics({platform.DIRECTORY_VARIABLE: str(tmp_path)}).token == token


def test_other_declarations_take_no_reference() -> None:
    declared = toml('url = { env = "X" }\ntoken = { env = "X" }', "x.toml")
    with raising(ConfigError, "x.toml url: {'env': 'X'} is a dict. Fix: give a str"):
        build(platform.ObserverAccess, declared, "x.toml")
