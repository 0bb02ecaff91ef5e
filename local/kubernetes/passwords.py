"""`local/run k8s-render passwords`: the Secret that a person makes (standard library only).

For `kubectl create -f -`, which refuses to replace what is there: the data can be opened with the passwords
of their time only.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from local.runtime.secrets import complete_secrets

NAMESPACE = "sluice"
# With the passwords of all services, for the pods that configure and provision them.
NAME = "sluice-passwords"


def main(arguments: Sequence[str]) -> int:
    """Print it, with new passwords."""
    parser = argparse.ArgumentParser(prog="local/run k8s-render passwords")
    parser.add_argument("--namespace", default=NAMESPACE, help=f"of the Secret (default: {NAMESPACE})")
    options = parser.parse_args(arguments)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME, "namespace": options.namespace},
        "stringData": {"sluice": json.dumps(complete_secrets({}))},
    }
    # kubectl reads JSON too.
    print(json.dumps(secret, indent=2))
    return 0
