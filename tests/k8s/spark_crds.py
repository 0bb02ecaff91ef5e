"""The Spark operator's custom resource definitions, from the JSON schemas of PyPI's kubeflow-spark-api.

Its models have the names, types and required fields of each resource. The operator's own definitions also
have the enumerations and minimums below, and take a pod template as it is; here its fields are checked too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP, VERSION = "sparkoperator.k8s.io", "v1beta2"
# Kind → its model, and where its specification holds that of a SparkApplication.
KINDS = {
    "SparkApplication": ("SparkV1beta2SparkApplication", ("spec",)),
    "ScheduledSparkApplication": ("SparkV1beta2ScheduledSparkApplication", ("spec", "template")),
}
# Run in the environment of spark-api.txt with the path of its output.
PRINT_SCHEMAS = f"""
import json, sys
from kubeflow_spark_api import models
names = {[model for model, _ in KINDS.values()]}
schemas = {{name: getattr(models, name).model_json_schema(by_alias=True) for name in names}}
open(sys.argv[1], "w").write(json.dumps(schemas))
"""
# Path below the specification → what the operator's definition says of the field beyond its type.
BOUNDS: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    ("type",): {"enum": ["Java", "Python", "Scala", "R"]},
    ("mode",): {"enum": ["cluster", "client"]},
    ("pythonVersion",): {"enum": ["2", "3"]},
    ("restartPolicy", "type"): {"enum": ["Never", "Always", "OnFailure"]},
    ("restartPolicy", "onFailureRetries"): {"minimum": 0},
    ("restartPolicy", "onFailureRetryInterval"): {"minimum": 1},
    ("restartPolicy", "onSubmissionFailureRetries"): {"minimum": 0},
    ("restartPolicy", "onSubmissionFailureRetryInterval"): {"minimum": 1},
    ("driver", "cores"): {"minimum": 1},
    ("executor", "cores"): {"minimum": 1},
    ("executor", "instances"): {"minimum": 1},
}
Schema = dict[str, Any]
ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
SIMPLE = ("string", "integer", "number", "boolean")


def definition(kind: str, schemas: Mapping[str, Schema]) -> Schema:
    """``schemas``: of the models, as PRINT_SCHEMAS writes them."""
    model, path = KINDS[kind]
    root = schemas[model]
    schema = structural(root, root["$defs"])
    schema["properties"] |= {"metadata": {"type": "object"}}
    schema["required"] = ["metadata", "spec"]
    _bound(_at(schema, path))
    plural = f"{kind.lower()}s"
    version = {"name": VERSION, "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            # Kubernetes asks who approved a group of its own domain.
            "annotations": {"api-approved.kubernetes.io": "unapproved, derived for tests"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def structural(schema: Schema, definitions: Mapping[str, Schema], stack: tuple[str, ...] = ()) -> Schema:
    """Without references and nulls, which Kubernetes does not know; a type within itself takes anything."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if name in stack:
            return {"type": "object"} | ANYTHING
        return structural(definitions[name], definitions, (*stack, name))
    if "anyOf" in schema:
        (chosen,) = (one for one in schema["anyOf"] if one.get("type") != "null")
        return structural(chosen, definitions, stack)
    properties, kind = schema.get("properties"), schema.get("type")
    if properties and "actual_instance" in properties:  # the generator's class of int-or-string
        return dict(INT_OR_STRING)
    if properties is not None:
        fields = {name: structural(field, definitions, stack) for name, field in properties.items()}
        required = {"required": schema["required"]} if schema.get("required") else {}
        return {"type": "object", "properties": fields} | required
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        values = structural(schema["additionalProperties"], definitions, stack)
        return {"type": "object", "additionalProperties": values}
    if kind == "array":
        return {"type": "array", "items": structural(schema["items"], definitions, stack)}
    return {"type": kind} if kind in SIMPLE else dict(ANYTHING)


def _bound(specification: Schema) -> None:
    for path, bounds in BOUNDS.items():
        _at(specification, path).update(bounds)


def _at(schema: Schema, path: tuple[str, ...]) -> Schema:
    for name in path:
        schema = schema["properties"][name]
    return schema
