"""Generates the JSON Schemas of the files and outputs of `bailiff plan`, `bailiff policy` and `bailiff explain`.

python -m bailiff.json_schemas docs/schemas            write
python -m bailiff.json_schemas --check docs/schemas    list the files that are out of date
"""

import json
import sys
from typing import Any

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from bailiff.explain.explanations import Explained
from bailiff_core.model.policy import Policy
from bailiff_core.plan import PlanReport, Snapshot
from bailiff_core.plan import snapshot as written
from bailiff_service import generated_files
from bailiff_service.event_reference.schemas import Json, Schemas, json_schema

AMOUNTS: Json = {
    "gpus": {"description": "GPUs; -1: unlimited", "type": "number", "minimum": -1},
    "cpus": {"description": "cores; -1: unlimited", "type": "number", "minimum": -1},
    "memory": {
        "description": "-1: unlimited",
        "anyOf": [{"type": "integer", "minimum": -1}, {"type": "string", "examples": ["64GiB"]}],
    },
}
ONE_OR_MORE: dict[Any, Json] = {
    written.as_list: {"type": "string"},
    written.as_ids: {"type": ["string", "integer"]},
    written.as_tasks: {"type": "integer", "minimum": 1, "description": "number of identical tasks"},
    written.as_text: {"type": "integer"},
}


class FileSchemas(Schemas):
    """Schemas of input files: also accept the short forms."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """Accepts the short form besides the long one."""
        inner = super().function_before_schema(schema)
        function = schema["function"]["function"]
        if function is written.as_ids:
            inner = {"type": "array", "items": {"type": ["string", "integer"]}}
        short = ONE_OR_MORE.get(function)
        return inner if short is None else {"anyOf": [inner, short]}


def schemas() -> dict[str, Json]:
    """All schemas, by file name."""
    snapshot = _closed(json_schema("snapshot", Snapshot, FileSchemas))
    snapshot["required"] = ["nodes"]
    snapshot["$defs"]["Policy"].pop("required", None)
    tasks = snapshot["$defs"]["JobDoc"]["properties"]["tasks"]
    snapshot["$defs"]["JobDoc"]["properties"]["tasks"] = {"anyOf": tasks["anyOf"]}
    return {
        "snapshot.json": snapshot,
        "plan.json": json_schema("plan", PlanReport, written=True),
        "explain.json": json_schema("explain", Explained, written=True),
        "policy.json": _closed(json_schema("policy", Policy, FileSchemas)),
    }


def _closed(schema: Json) -> Json:
    """The schema of an input file: unknown fields are errors, and amounts may have units."""
    for definition in (schema, *schema["$defs"].values()):
        if "properties" in definition:
            definition["additionalProperties"] = False
    schema["$defs"]["Bounds"]["properties"] |= AMOUNTS
    weights = schema["$defs"]["Weights"]
    schema["$defs"]["Weights"] = {"anyOf": [weights, {"type": "integer", "minimum": 0, "description": "for all three"}]}
    return schema


if __name__ == "__main__":
    texts = {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas().items()}
    sys.exit(generated_files.main(__doc__ or "", texts))
