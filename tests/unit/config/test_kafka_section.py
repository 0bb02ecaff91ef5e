"""``[kafka]``: logins that no client can use are refused before one is made."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.platform_sections.kafka import Kafka, check
from sluice.config.reading.toml import ConfigError, build, secrets
from tests.support.raising import raising

BROKERS = {"bootstrap_servers": "broker:9093"}
OAUTH = BROKERS | {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "https://issuer.test/token",
    "sasl_oauthbearer_client_id": "sluice",
    "sasl_oauthbearer_client_secret": "the-secret",
}
FILE = BROKERS | {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "file:///run/secrets/token",
}
MSK = BROKERS | {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "AWS_MSK_IAM",
    "aws_region": "eu-central-1",
}
CERTIFICATE = BROKERS | {"security_protocol": "SSL", "ssl_certificate_location": "/run/tls.pem"}
PASSWORD = BROKERS | {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "u"}
SCRAM = PASSWORD | {"sasl_mechanism": "SCRAM-SHA-512", "password": "the-secret"}
PLAIN_TEXT = {"plain_text": True}
HERE = {"bootstrap_servers": "127.0.0.1:9092, [::1]:9092,localhost:9092"}


@pytest.mark.parametrize(
    "declared",
    [
        HERE,
        BROKERS | PLAIN_TEXT,
        {"bootstrap_servers": "b_1.kafka-2.example.com.:9092 , [2001:db8::1]:65535"} | PLAIN_TEXT,
        BROKERS | {"security_protocol": "SSL", "ssl_ca_location": "/ca"},
        OAUTH,
        OAUTH | {"sasl_oauthbearer_extensions": "logicalCluster=lkc-1,identityPoolId=pool-1"},
        OAUTH | {"sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:1/token"},
        FILE,
        MSK,
        MSK | {"aws_role_arn": "arn:aws:iam::123456789012:role/sluice"},
        CERTIFICATE,
        CERTIFICATE | {"ssl_key_location": "/run/tls.key", "ssl_key_password": "p"},
        CERTIFICATE | PASSWORD,
        PASSWORD,
        PASSWORD | HERE | {"security_protocol": "SASL_PLAINTEXT"},
        SCRAM | PLAIN_TEXT | {"security_protocol": "SASL_PLAINTEXT"},
        OAUTH | PLAIN_TEXT | {"security_protocol": "SASL_PLAINTEXT"},
    ],
    ids=str,
)
def test_a_login_is_taken(declared: dict[str, Any]) -> None:
    check(build(Kafka, declared, "consumer.toml"), "consumer.toml")


@pytest.mark.parametrize(
    ("declared", "change", "said"),
    [
        (PASSWORD, {"security_protocol": "SASL"}, "security_protocol is 'SASL'. Fix: use one of PLAINTEXT"),
        (PASSWORD, {"sasl_mechanism": "GSSAPI"}, "sasl_mechanism is 'GSSAPI'. Fix: use one of PLAIN,"),
        (PASSWORD, {"sasl_mechanism": ""}, "is SASL_SSL, and sasl_mechanism is missing. Fix: add it"),
        (
            PASSWORD,
            {"password": "a\0b"},
            "password has the character 0, which no login can have. Fix: corr",
        ),
        (
            OAUTH,
            {"sasl_oauthbearer_client_id": "a:b"},
            "client_id has a colon, which ends a name in a reque",
        ),
        (OAUTH, {"security_protocol": "SSL"}, "security_protocol SSL has no login. Fix: write security_pro"),
        (OAUTH, {"username": "u"}, "username and password have no meaning with sasl_mechanism OAUTHBEARER"),
        (OAUTH, {"aws_region": "eu-west-1"}, "aws_region has no meaning with sasl_mechanism 'OAUTHBEARER'"),
        (PASSWORD, {"https_ca_location": "/ca"}, "https_ca_location has no meaning with sasl_mechanism 'PL"),
        (
            OAUTH,
            {"sasl_oauthbearer_token_endpoint_url": "https://u:p@issuer/token"},
            "token_endpoint_url has a login in it. Fix: write it as sasl_oauthbearer_client_id and",
        ),
        (
            OAUTH,
            {"sasl_oauthbearer_token_endpoint_url": "http://issuer.test/token"},
            "is of another machine, and the secret would be sent to it in plain text. Fix: write https://",
        ),
        (OAUTH, {"sasl_oauthbearer_token_endpoint_url": ""}, "token_endpoint_url ''. Fix: write it with"),
        (OAUTH, {"sasl_oauthbearer_client_secret": ""}, "client_secret is missing. Fix: give it, in vis"),
        (OAUTH, {"sasl_oauthbearer_client_id": "a b"}, "client_id has a character that no header can have"),
        (OAUTH, {"sasl_oauthbearer_extensions": "auth=x"}, "extensions has 'auth=x'. Fix: write name=value"),
        (OAUTH, {"sasl_oauthbearer_extensions": "a=1,b"}, "extensions has 'b'. Fix: write name=value"),
        (FILE, {"sasl_oauthbearer_token_endpoint_url": "file:token"}, "Fix: write file:// and an absolute"),
        (FILE, {"sasl_oauthbearer_token_endpoint_url": "file://run/token"}, "Fix: write file:// and an"),
        (FILE, {"sasl_oauthbearer_scope": "kafka"}, "scope has no meaning for a token of a file. Fix: rem"),
        (MSK, {"security_protocol": "SASL_PLAINTEXT"}, "AWS_MSK_IAM is encrypted always. Fix: write secu"),
        (MSK, {"aws_region": ""}, "aws_region is ''. Fix: write it as eu-central-1"),
        (MSK, {"aws_role_arn": "sluice"}, "aws_role_arn is 'sluice'. Fix: write it as arn:aws:iam::"),
        (CERTIFICATE, {"security_protocol": "PLAINTEXT"}, "PLAINTEXT is not encrypted. Fix: write SSL, or"),
        (
            BROKERS,
            {"ssl_ca_location": "/ca"},
            "ssl_ca_location is there, and security_protocol PLAINTEXT is not encrypted. Fix: write SSL, or",
        ),
        (SCRAM, {"security_protocol": "SASL_PLAINTEXT", "ssl_ca_location": "/ca"}, "is not encrypted. Fix:"),
        (
            SCRAM,
            {"security_protocol": "PLAINTEXT"},
            'PLAINTEXT has no login. Fix: write security_protocol = "SASL_SSL", or remove sasl_mechanism',
        ),
        (SCRAM, {"security_protocol": "SSL"}, "sasl_mechanism is there, and security_protocol SSL has no lo"),
        (SCRAM, HERE | {"security_protocol": "PLAINTEXT"}, "security_protocol PLAINTEXT has no login. Fix:"),
        (BROKERS, {"username": "u", "password": "the-secret"}, "username is there, and security_protocol PL"),
        (BROKERS | PLAIN_TEXT, {"password": "the-secret"}, "password is there, and security_protocol PLAIN"),
        (
            SCRAM,
            {"security_protocol": "SASL_PLAINTEXT"},
            "plain text. Fix: write SASL_SSL, or, in a network that you trust, plain_text = true",
        ),
        (
            OAUTH,
            {"security_protocol": "SASL_PLAINTEXT"},
            "security_protocol is SASL_PLAINTEXT, and 'broker' of bootstrap_servers is another machine, to",
        ),
        (OAUTH, {"security_protocol": "SASL_PLAINTEXT"}, "the login and all records would be sent in plain"),
        (BROKERS, {}, "is another machine, to which all records would be sent in plain text. Fix: write SSL"),
        (HERE, {"bootstrap_servers": "127.0.0.1:1,other:1"}, "'other' of bootstrap_servers is another mac"),
        (HERE, {"bootstrap_servers": ",kafka-1:9092"}, "bootstrap_servers has ''. Fix: write each broker as"),
        (HERE, {"bootstrap_servers": "localhost:9092,,kafka:9092"}, "bootstrap_servers has ''. Fix: write"),
        (PASSWORD, {"bootstrap_servers": "broker:9093,"}, "bootstrap_servers has ''. Fix: write each broker"),
        (PASSWORD, {"bootstrap_servers": "broker"}, "bootstrap_servers has 'broker'. Fix: write each broke"),
        (PASSWORD, {"bootstrap_servers": "broker:0"}, "bootstrap_servers has 'broker:0'. Fix: write each br"),
        (PASSWORD, {"bootstrap_servers": "broker:port"}, "bootstrap_servers has 'broker:port'. Fix: write "),
        (PASSWORD, {"bootstrap_servers": "::1:9092"}, "bootstrap_servers has '::1:9092'. Fix: write each br"),
        (HERE, {"bootstrap_servers": "/kafka:9092"}, "bootstrap_servers has '/kafka:9092'. Fix: write each"),
        (
            PASSWORD,
            {"bootstrap_servers": "PLAINTEXT://broker:9092"},
            "bootstrap_servers has 'PLAINTEXT://broker:9092'. Fix: write each broker as host:port",
        ),
        (BROKERS, {"ssl_key_location": "/k"}, "ssl_key_location is there, and ssl_certificate_location is"),
        (BROKERS, {"ssl_key_password": "p"}, "ssl_key_password is there, and ssl_certificate_location is"),
    ],
    ids=str,
)
def test_a_login_that_no_client_can_use_is_refused(
    declared: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    with raising(ConfigError, "consumer.toml: kafka ", said) as caught:
        check(build(Kafka, declared | change, "consumer.toml"), "consumer.toml")
    assert "the-secret" not in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_secrets_are_known_and_not_shown() -> None:
    made = build(Kafka, OAUTH | {"ssl_key_password": "phrase", "password": "pass"}, "consumer.toml")
    assert set(secrets(made)) == {"the-secret", "phrase", "pass"}
    assert not any(secret in repr(made) for secret in secrets(made))
