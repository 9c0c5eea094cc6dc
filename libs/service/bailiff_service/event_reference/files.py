"""Generates all files of the reference."""

import json
from functools import cache
from typing import Any

import yaml

from .asyncapi import asyncapi
from .events import events
from .pages import access_page, metrics_page, readme
from .schemas import Json, json_schema

REMOVABLE = "schemas/*.json"
"""Those of record types that are gone."""


@cache
def generated() -> dict[str, str]:
    """Contents of all files by relative path."""
    schemas = {event.kind: json_schema(event.kind, event.model) for event in events()}
    files = {f"schemas/{name}.json": json_text(schema) for name, schema in schemas.items()}
    files["asyncapi.yaml"] = yaml_text(asyncapi())
    files["README.md"] = readme(schemas)
    files["access.md"] = access_page()
    files["metrics.md"] = metrics_page()
    return dict(sorted(files.items()))


def json_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


class _Plain(yaml.SafeDumper):
    """YAML without anchors, for readability."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Repeat equal parts instead of using aliases."""
        return True


def yaml_text(value: Json) -> str:
    return yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)
