"""Which variables a child process gets by its role's platform file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.clients.processes.variables import environment_of, withheld

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_SESSION_TOKEN": "token"}
FILES = {"AWS_CONFIG_FILE": "/aws/config"}
FURTHER = {
    "AWS_PROFILE": "p",
    "AWS_ROLE_ARN": "arn",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "/t",
    "AWS_REGION": "eu-west-1",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1",
    "AWS_CA_BUNDLE": "/ca.pem",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/token",
}
ALL = {**KEYS, **FILES, **FURTHER}
CA = {"AWS_CA_BUNDLE": "/ca.pem"}
LOGINS = {
    "the default chain": ('[s3]\nregion = "eu-west-1"', ALL),
    "empty keys": ('[s3]\naccess_key = ""', ALL),
    "a role over the chain": ('[s3]\nrole_arn = "arn:aws:iam::1:role/r"', ALL),
    "AWS's IAM for Kafka": ('[s3]\naccess_key = "a"\n[kafka]\nsasl_mechanism = "AWS_MSK_IAM"', ALL),
    "a profile": ('[s3]\nprofile = "p"', FILES | CA),
    "keys": ('[s3]\naccess_key = "a"', CA),
    "keys by a reference": ('[s3]\naccess_key = { file = "/s" }', CA),
    "a token's file": ('[s3]\nrole_arn = "arn"\nweb_identity_token_file = "/t"', CA),
    "no S3": ('[kafka]\nsasl_mechanism = "PLAIN"', CA),
    "no TOML": ("[s3", CA),
}


@pytest.mark.parametrize("case", LOGINS)
def test_awss_variables_reach_those_whose_login_is_the_default_chain_and_no_others(
    case: str, tmp_path: Path
) -> None:
    text, expected = LOGINS[case]
    (tmp_path / "consumer.toml").write_text(text)
    (tmp_path / "producer.toml").write_text('[s3]\naccess_key = "a"')
    environ = {"SLUICE_PLATFORM_DIR": str(tmp_path), **ALL}
    found = environment_of("consumer", environ)
    assert {name: value for name, value in found.items() if name.startswith("AWS_")} == expected
    for other in ("producer", ""):
        assert {name for name in environment_of(other, environ) if name.startswith("AWS_")} == set(CA)
    assert withheld("", environ) == sorted(ALL.keys() - CA.keys())
