"""[registry] of a platform file: addresses, logins, certificates."""

from __future__ import annotations

import pytest

from sluice.clients.registry.schemas import RegistrySchemas
from sluice.config import platform
from sluice.config.platform_sections.registry import Registry
from sluice.config.reading.toml import ConfigError, secrets
from sluice.systems import Systems
from tests.support.raising import raising
from tests.unit.config.test_platform import NO_URLS, PLATFORM

URL = 'url = "https://registry.example.com"'


def parse(*lines: str) -> platform.Platform:
    return platform.parse("\n".join([PLATFORM, "[registry]", *lines]), "consumer.toml")


def section(*lines: str) -> Registry:
    found = parse(*lines).registry
    assert found is not None
    return found


def test_a_file_may_have_none_and_says_so_where_one_is_needed() -> None:
    made = platform.parse(PLATFORM, "consumer.toml")
    assert made.registry is None
    with raising(ConfigError, "consumer.toml: [registry] is missing", "Fix: add it"):
        RegistrySchemas.of(made)


def test_a_roles_systems_have_its_registry() -> None:
    class Declared(Systems):
        platform = parse(URL, 'name = "production"')

    systems = Declared("consumer")
    assert systems.registry.name == "production"
    assert systems.schemas == RegistrySchemas(
        section(URL, 'name = "production"'), systems.platform.s3, "s3://warehouse/ledger"
    )
    systems.close()


@pytest.mark.parametrize(
    "login", ['username = "me"\npassword = "of-the-registry"', 'token = "of-the-registry"', ""]
)
def test_each_login_is_read_and_its_secret_hidden(login: str) -> None:
    made = parse(URL, login)
    assert "of-the-registry" not in repr(made)
    assert ("of-the-registry" in secrets(made)) is bool(login)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['token = "t"', 'username = "u"', 'password = "word"'], "there are two logins"),
        (['token = "t"', 'password = "word"'], "there are two logins"),
        (['username = "u"'], "username is there, and password is missing"),
        (['password = "word"'], "password is there, and username is missing"),
        (['username = "u:v"', 'password = "word"'], "username has a colon"),
        (['username = "u\\n"', 'password = "word"'], "username has a colon or a control character"),
        (['token = "word "'], "token has a character that no header can have"),
        (['token = "wörd"'], "token has a character"),
        (["token = 48151623"], "registry token: it is a int"),
        (['name = "a\\nb"'], "name has a character"),
        ([f'name = "{"a" * 201}"'], "more than 200"),
        (['ssl_key_location = "/k.pem"'], "ssl_certificate_location is missing"),
        (['sasl = "x"'], "unknown key 'sasl'"),
    ],
)
def test_what_does_not_fit_together_is_refused_without_a_secret(lines: list[str], words: str) -> None:
    with raising(ConfigError, "consumer.toml", "registry", words, "Fix:") as caught:
        parse(URL, *lines)
    assert "wörd" not in str(caught.value)
    assert "word " not in str(caught.value).replace("password ", "")
    assert "48151623" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *(url for url in NO_URLS if "\\n" not in url),
        "https://h,",
        ",https://h",
        "https://h/?a=b",
        "https://h/#a",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with raising(ConfigError, "consumer.toml: registry url", "Fix:"):
        parse(f'url = "https://h,{url}"')


@pytest.mark.parametrize("url", ["https://me:hidden@h", "ftp://me:hidden@h", "https://h,http://hidden@h:0"])
def test_a_login_in_an_address_is_refused_without_showing_it(url: str) -> None:
    with raising(ConfigError, "registry url", "has a login in it", "Fix:") as caught:
        parse(f'url = "{url}"')
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("login", ['username = "u"\npassword = "p"', 'token = "t"'])
def test_a_login_in_plain_text_goes_to_this_machine_or_must_be_declared(login: str) -> None:
    for url in ("http://h:8081", "https://h,http://10.0.0.7"):
        with raising(ConfigError, "consumer.toml", url.rpartition(",")[2], "plain text", "plain_text = true"):
            parse(f'url = "{url}"', login)
        assert section(f'url = "{url}"', login, "plain_text = true").plain_text
        assert section(f'url = "{url}"').urls[-1] == url.rpartition(",")[2], "no login"
    for url in ("http://127.0.0.1:8081", "http://localhost", "http://[::1]:8081"):
        assert section(f'url = "{url}"', login).urls == (url,)


@pytest.mark.parametrize("key", ["ssl_ca_location", "ssl_certificate_location"])
def test_certificates_need_encryption(key: str) -> None:
    with raising(ConfigError, f"registry {key}", "http://127.0.0.1:8081 is not encrypted", "Fix:"):
        parse('url = "https://h, http://127.0.0.1:8081/"', f'{key} = "/a.pem"')
    assert getattr(section(URL, f'{key} = "/a.pem"'), key) == "/a.pem"


def test_several_addresses() -> None:
    assert section('url = "https://a/x/ , https://b"').urls == ("https://a/x", "https://b")


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("https://H.example.com/", "https://h.example.com:443"),
        ("https://h.example.com:443", "https://h.example.com:443"),
        ("http://h,http://g", "http://h:80"),
        ("https://h:8081/apis/ccompat/v7/", "https://h:8081/apis/ccompat/v7"),
    ],
)
def test_a_registry_without_a_name_is_its_first_address(url: str, identity: str) -> None:
    assert Registry(url).identity == identity
    assert Registry(url, name="mine").identity == "mine"


TOKENS = (
    'bearer_auth_issuer_endpoint_url = "https://issuer.example.com/token"',
    'bearer_auth_client_id = "me"',
    'bearer_auth_client_secret = "of-the-registry"',
)


def test_tokens_that_are_fetched_are_a_login_whose_secret_is_hidden() -> None:
    made = parse(URL, *TOKENS, 'bearer_auth_logical_cluster = "lsrc-1"')
    assert "of-the-registry" not in repr(made)
    assert "of-the-registry" in secrets(made)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (TOKENS[:2], "bearer_auth_client_secret is missing"),
        (TOKENS[1:], "bearer_auth_client_id is there, and bearer_auth_issuer_endpoint_url is missing"),
        ((*TOKENS, 'token = "t"'), "bearer_auth_issuer_endpoint_url and another login"),
        ((TOKENS[0].replace("https:", "http:"), *TOKENS[1:]), "the secret would be sent to it in plain text"),
        ((TOKENS[0].replace("//", "//me:word@"), *TOKENS[1:]), "has a login in it"),
        (('bearer_auth_identity_pool_id = "pool-1"',), "is there, and no bearer token"),
        (('https_ca_location = "/ca.pem"',), "https_ca_location is there, and bearer_auth_issuer"),
        (
            ('ssl_key_password = "word"',),
            "ssl_key_password is there, and ssl_certificate_location",
        ),
    ],
)
def test_tokens_that_cannot_be_fetched_are_refused(lines: tuple[str, ...], words: str) -> None:
    with raising(ConfigError, "consumer.toml: registry", words) as raised:
        parse(URL, *lines)
    assert "word@" not in str(raised.value)
    assert "of-the-registry" not in str(raised.value)


def test_a_token_is_not_sent_to_another_machine_in_plain_text() -> None:
    with raising(ConfigError, "the login would be sent to it in plain text"):
        parse(URL.replace("https", "http"), *TOKENS)
