"""Generates JSON Schemas from pydantic models."""

import inspect
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from bailiff_core.model.document import MAX_INTEGER, MICROSECONDS, parse_duration
from bailiff_service.field_descriptions import describe_fields

Json = dict[str, Any]


DIALECT = "https://json-schema.org/draft/2020-12/schema"
DURATION_PATTERN = rf"^\s*[0-9]+({'|'.join(MICROSECONDS)})\s*$"
LIMITS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


class Schemas(GenerateJsonSchema):
    """pydantic's schema generator, extended by the text form of durations."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """A duration is an integer of microseconds, or text such as 30s."""
        inner = super().function_before_schema(schema)
        if schema["function"]["function"] is not parse_duration:
            return inner
        return {"anyOf": [inner, {"type": "string", "pattern": DURATION_PATTERN}]}


def json_schema(name: str, model: type[BaseModel], kind: type[Schemas] = Schemas, *, written: bool = False) -> Json:
    """The model's JSON Schema with this title. written: of the serialised form, instead of the accepted input."""
    schema = model.model_json_schema(schema_generator=kind, mode="serialization" if written else "validation")
    schema.pop("title", None)
    schema["description"] = inspect.cleandoc(model.__doc__ or "")
    describe_fields(schema)
    head = {"$schema": DIALECT, "$id": f"urn:bailiff:{name}", "title": name}
    tidied = _tidied(schema, is_properties=False)
    assert isinstance(tidied, dict)
    return head | tidied


def _tidied(value: object, *, is_properties: bool) -> object:
    """The schema without pydantic's titles, and with limits under their JSON Schema names."""
    if isinstance(value, list):
        return [_tidied(item, is_properties=False) for item in value]
    if not isinstance(value, dict):
        return value
    if is_properties:  # here the keys are field names, even if they equal a schema keyword
        return {name: _tidied(item, is_properties=False) for name, item in value.items()}
    found: Json = {}
    limits = {LIMITS[key]: limit for key, limit in value.items() if key in LIMITS}
    for key, item in value.items():
        if key == "default":
            found[key] = item
        elif key != "title" and key not in LIMITS:
            found[key] = _tidied(item, is_properties=key in {"properties", "$defs"})
    if "anyOf" in found:  # limits apply to the integer alternative
        choices = [choice for option in found["anyOf"] for choice in option.get("anyOf", [option])]
        found["anyOf"] = [choice | (limits if choice.get("type") == "integer" else {}) for choice in choices]
    else:
        found |= limits
    if found.get("type") == "integer":  # order of keys: type, then bounds
        bounds = {name: found.pop(name) for name in ("minimum", "maximum") if name in found}
        found |= {"type": found.pop("type")} | {"minimum": -MAX_INTEGER, "maximum": MAX_INTEGER} | bounds
    return found
