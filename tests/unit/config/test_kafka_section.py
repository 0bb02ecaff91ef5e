"""``[kafka]``: logins that no client can use are refused before one is made."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    "declared",
    [
        BROKERS,
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
        # As platform files of 0.1.0 may be.
        PASSWORD | {"security_protocol": "PLAINTEXT"},
    ],
    ids=str,
)
def test_a_login_is_taken(declared: dict[str, str]) -> None:
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
        (BROKERS, {"ssl_key_location": "/k"}, "ssl_key_location is there, and ssl_certificate_location is"),
        (BROKERS, {"ssl_key_password": "p"}, "ssl_key_password is there, and ssl_certificate_location is"),
    ],
    ids=str,
)
def test_a_login_that_no_client_can_use_is_refused(
    declared: dict[str, str], change: dict[str, str], said: str
) -> None:
    with raising(ConfigError, "consumer.toml: kafka ", said) as caught:
        check(build(Kafka, declared | change, "consumer.toml"), "consumer.toml")
    assert "the-secret" not in str(caught.value)
    assert "u:p" not in str(caught.value)


def test_secrets_are_known_and_not_shown() -> None:
    made = build(Kafka, OAUTH | {"ssl_key_password": "phrase", "password": "pass"}, "consumer.toml")
    assert set(secrets(made)) == {"the-secret", "phrase", "pass"}
    assert not any(secret in repr(made) for secret in secrets(made))
