"""A login as librdkafka, kafka-python and Java's clients take it: in this one place for each."""

from __future__ import annotations

import logging
from typing import Any

from sluice.clients.kafka.errors import Remark
from sluice.clients.kafka.login import certificates
from sluice.clients.kafka.login.tokens import tokens
from sluice.clients.tls.certificates import keystore
from sluice.config.platform_sections.kafka import AWS_MSK_IAM, OAUTHBEARER, Kafka
from sluice.core.errors import Unreachable

log = logging.getLogger(__name__)

# librdkafka's log, which it else writes to standard error, past every handler.
LIBRDKAFKA_LOG = logging.getLogger("librdkafka")
# A refused login is tried again, too: not ten times within a second.
_PATIENCE = {"reconnect.backoff.ms": 250, "reconnect.backoff.max.ms": 5_000}
# Java's mechanism -> its login module.
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    AWS_MSK_IAM: "software.amazon.msk.auth.iam.IAMLoginModule",
}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Kafka's own handler reads a token's file once, and sends no audience.
_OAUTH_HANDLER = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_MSK_HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"


def librdkafka(kafka: Kafka) -> dict[str, Any]:
    """Configuration for confluent-kafka, whose clients log when they are polled.

    They read certificates when they are made: see ``certificates.Renewed``. Raises LoginRefused and
    Unreachable for a token or files that cannot be had: of these librdkafka says little, and late.
    """
    certificates.check(kafka)
    settings: dict[str, Any] = {**_servers(kafka), **_PATIENCE, "logger": LIBRDKAFKA_LOG}
    if _has_token(kafka):
        tokens(kafka).current()
        settings |= {"sasl.mechanism": OAUTHBEARER, "oauth_cb": lambda _: _token_of(kafka)}
    elif kafka.sasl_mechanism:
        settings |= {
            "sasl.mechanism": kafka.sasl_mechanism,
            "sasl.username": kafka.username,
            "sasl.password": kafka.password,
        }
    if kafka.ssl_ca_location:
        settings["ssl.ca.location"] = kafka.ssl_ca_location
    if kafka.ssl_certificate_location:
        settings |= {
            "ssl.certificate.location": kafka.ssl_certificate_location,
            "ssl.key.location": kafka.ssl_key_location or kafka.ssl_certificate_location,
        }
        if kafka.ssl_key_password:
            settings["ssl.key.password"] = kafka.ssl_key_password
    return settings


def kafka_python(kafka: Kafka) -> dict[str, Any]:
    """Configuration for kafka-python's connections, of which each reads the certificates. Raises
    LoginRefused for files that cannot be used."""
    certificates.check(kafka)
    settings: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers.split(","),
        "security_protocol": kafka.security_protocol,
    }
    if _has_token(kafka):
        from sluice.clients.kafka.login.provider import TokenProvider

        settings |= {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": TokenProvider(kafka)}
    elif kafka.sasl_mechanism:
        settings |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": _scram_name(kafka) if _is_scram(kafka) else kafka.username,
            "sasl_plain_password": kafka.password,
        }
    if kafka.ssl_ca_location:
        settings["ssl_cafile"] = kafka.ssl_ca_location
    if kafka.ssl_certificate_location:
        settings |= {
            "ssl_certfile": kafka.ssl_certificate_location,
            "ssl_keyfile": kafka.ssl_key_location or None,
            # Without one OpenSSL would ask for it on the terminal.
            "ssl_password": kafka.ssl_key_password,
        }
    return settings


def java(kafka: Kafka) -> dict[str, str]:
    """Configuration for Java's clients, and after the prefix ``kafka.`` for Spark's source and sink. Raises
    LoginRefused for files that cannot be used."""
    certificates.check(kafka)
    settings = _servers(kafka)
    if kafka.sasl_mechanism:
        settings |= {"sasl.mechanism": kafka.sasl_mechanism, "sasl.jaas.config": _jaas(kafka)}
    if kafka.sasl_mechanism == OAUTHBEARER:
        settings["sasl.login.callback.handler.class"] = _OAUTH_HANDLER
    if kafka.sasl_mechanism == AWS_MSK_IAM:
        settings["sasl.client.callback.handler.class"] = _MSK_HANDLER
    if kafka.ssl_ca_location:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": kafka.ssl_ca_location}
    if kafka.ssl_certificate_location:
        kept = keystore(certificates.client_certificate(kafka))
        settings |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": kept.path,
            "ssl.keystore.password": kept.password,
        }
    return settings


def check_token(kafka: Kafka) -> None:
    """Raises LoginRefused if the token has ended, and no other one is given; not if nothing answers."""
    if not _has_token(kafka):
        return
    try:
        tokens(kafka).current()
    except Unreachable as error:
        log.warning("no token: %s", error)


def login_remark(kafka: Kafka) -> Remark:
    """What this process knows of a login that a broker refuses."""
    return tokens(kafka).remark() if _has_token(kafka) else certificates.remark(kafka)


def _servers(kafka: Kafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": kafka.security_protocol}


def _has_token(kafka: Kafka) -> bool:
    # MSK takes what AWS signs as a token of OAUTHBEARER, too.
    return kafka.sasl_mechanism in (OAUTHBEARER, AWS_MSK_IAM)


def _token_of(kafka: Kafka) -> tuple[str, float, str, dict[str, str]]:
    """Token, end, principal (which brokers take from the token) and extensions, as librdkafka asks for it."""
    token = tokens(kafka).current()
    return token.value, token.span()[1], "", dict(kafka.extensions)


def _is_scram(kafka: Kafka) -> bool:
    return kafka.sasl_mechanism.startswith("SCRAM-")


def _scram_name(kafka: Kafka) -> str:
    """As RFC 5802 has a name, which the other clients do by themselves."""
    return kafka.username.replace("=", "=3D").replace(",", "=2C")


def _jaas(kafka: Kafka) -> str:
    if kafka.sasl_mechanism == OAUTHBEARER:
        options = _oauth_options(kafka)
    elif kafka.sasl_mechanism == AWS_MSK_IAM:
        role = {"awsRoleArn": kafka.aws_role_arn, "awsStsRegion": kafka.aws_region}
        options = role if kafka.aws_role_arn else {}
    else:
        options = {"username": kafka.username, "password": kafka.password}
    words = [f'{name}="{_quoted(text)}"' for name, text in options.items()]
    return f"{' '.join([_MODULES[kafka.sasl_mechanism], 'required', *words])};"


def _oauth_options(kafka: Kafka) -> dict[str, str]:
    if kafka.token_file:
        options = {"oauth.access.token.location": kafka.token_file}
    else:
        options = {
            "oauth.token.endpoint.uri": kafka.sasl_oauthbearer_token_endpoint_url,
            "oauth.client.id": kafka.sasl_oauthbearer_client_id,
            "oauth.client.secret": kafka.sasl_oauthbearer_client_secret,
            "oauth.scope": kafka.sasl_oauthbearer_scope,
            "oauth.audience": kafka.sasl_oauthbearer_audience,
            # Its time is that of the answer: no JWT is needed, and no clock compared.
            "oauth.access.token.is.jwt": "false",
        }
        if kafka.https_ca_location:
            options |= {
                "oauth.ssl.truststore.location": kafka.https_ca_location,
                "oauth.ssl.truststore.type": "PEM",
            }
    options |= {f"oauth.sasl.extension.{name}": text for name, text in kafka.extensions.items()}
    return {name: text for name, text in options.items() if text}


def _quoted(value: str) -> str:
    """Within quotes of JAAS, whose texts end at a line's end, and have Java's escapes."""
    return "".join(_ESCAPES.get(one, one) for one in value)
