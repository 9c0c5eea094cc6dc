"""The OpenAPI document of an HTTP interface, and the command that writes it or checks that it is current."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from . import generated_files
from .field_descriptions import describe_fields
from .problems import TITLES, ProblemDetails

REF = "#/components/schemas/{model}"


def problem_responses(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The errors that every route may answer with."""
    return {code: {"model": ProblemDetails, "description": TITLES[code]} for code in codes}


def described(app: FastAPI, tags: Mapping[str, str], more: Sequence[type] = ()) -> dict[str, Any]:
    """The document, with problem documents instead of FastAPI's own errors. more: types that no route answers with as a whole."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        found["tags"] = [{"name": name, "description": text} for name, text in tags.items()]
        for path in found["paths"].values():
            for operation in path.values():
                responses = operation["responses"]
                responses.pop("422", None)
                for code, response in responses.items():
                    for content in response.get("content", {}).values():
                        if "$ref" in content.get("schema", {}):
                            content["schema"].pop("type", None)  # FastAPI calls what is not JSON a string
                    if int(code) >= 400:
                        (response["content"],) = [{"application/problem+json": each} for each in response["content"].values()]
        schemas = found["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        for kind in more:
            schema = TypeAdapter(kind).json_schema(mode="serialization", ref_template=REF)
            schemas.update(schema.pop("$defs", {}))
            schemas[kind.__name__] = schema
        describe_fields(schemas)
        found["components"]["schemas"] = dict(sorted(schemas.items()))
        app.openapi_schema = found
    return app.openapi_schema


def main(document: Mapping[str, Any], about: str) -> int:
    """Runs the command line: writes the document to a file, or with `--check` returns 1 if the file is out of date."""
    return generated_files.main(about, {"": json.dumps(document, indent=1, ensure_ascii=False) + "\n"})
