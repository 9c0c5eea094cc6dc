"""Generates all files of the reference, and finds the stale ones."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .asyncapi import asyncapi
from .events import events
from .pages import access_page, metrics_page, readme
from .schemas import Json, json_schema


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


def write(folder: Path) -> list[str]:
    """Bring the folder up to date. Returns the names of the changed files."""
    changed = stale(folder)
    files = generated()
    for name in changed:
        path = folder / name
        if name not in files:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[name], encoding="utf-8", newline="\n")
    return changed


def stale(folder: Path) -> list[str]:
    """Names of files that are missing or outdated, and of schemas of removed types."""
    files = generated()
    found = {f"schemas/{path.name}" for path in folder.glob("schemas/*.json")}
    wrong = {name for name, text in files.items() if _read(folder / name) != text.encode()}
    return sorted(wrong | (found - files.keys()))


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def json_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


class _Plain(yaml.SafeDumper):
    """YAML without anchors, for readability."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Repeat equal parts instead of using aliases."""
        return True


def yaml_text(value: Json) -> str:
    return yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)
