"""Nothing that is written for a model is dropped silently: neither a keyword in its definition, nor a field in its input."""

import ast
import importlib
import inspect
import json
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict
from pydantic_settings import SettingsConfigDict

from bailiff.render.serializers.policy import policy_document
from bailiff_console.actions.request_types import KINDS
from bailiff_core.model.claims import UNSTATED
from bailiff_core.model.document import Document
from bailiff_core.model.policy import DEFAULT_CLAIMS, DEFAULT_POLICY, Policy
from bailiff_core.model.project_tree import NO_QUOTA
from bailiff_core.plan.snapshot import Snapshot
from bailiff_core.records.job_requests import SubmitJob
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_service.policy_files import policy_from, strict_faults

ROOT = Path(__file__).parents[2]
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for pattern in ("libs/*/bailiff*", "services/*/bailiff*")
    for folder in sorted(ROOT.glob(pattern))
    for path in sorted(folder.rglob("*.py"))
}
KNOWN = {
    "Field": set(inspect.signature(pydantic.Field).parameters) - {"extra"},
    "ConfigDict": {*ConfigDict.__required_keys__, *ConfigDict.__optional_keys__},
    "SettingsConfigDict": {*SettingsConfigDict.__required_keys__, *SettingsConfigDict.__optional_keys__},
}
DOCUMENTS = (Policy, Snapshot, SubmitJob, *KINDS.values(), ApplyPolicy)
"""What people write: files, and requests of the console."""


def models() -> Iterator[type[BaseModel]]:
    """Every model of the repository."""
    for path, text in SOURCES.items():
        if re.search("BaseModel|Document|Settings", text):
            parts = path.relative_to(ROOT).with_suffix("").parts[2:]
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("bailiff"):
                yield kind


def misused(tree: ast.AST, fields: set[str]) -> Iterator[str]:
    """Keywords that pydantic does not know, and fields in `model_copy(update=...)` that no model has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KNOWN:
            unknown = [each.arg for each in node.keywords if each.arg is not None and each.arg not in KNOWN[node.func.id]]
            yield from (f"{node.func.id}({name}=)" for name in unknown)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "model_copy":
            for keyword in node.keywords:
                names = keyword.value.keys if isinstance(keyword.value, ast.Dict) else ()
                texts = [each.value for each in names if isinstance(each, ast.Constant)]
                yield from (f"model_copy of {name!r}" for name in texts if name not in fields)


@pytest.mark.slow
def test_no_model_is_defined_or_copied_with_a_name_that_pydantic_ignores() -> None:
    fields = {name for kind in models() for name in kind.model_fields}
    wrong = [
        f"{path.relative_to(ROOT)}: {each}"
        for path, text in SOURCES.items()
        if re.search(r"Field\(|ConfigDict\(|model_copy\(", text)
        for each in misused(ast.parse(text), fields)
    ]
    assert wrong == []


def test_such_names_are_found() -> None:
    text = "Field(1, max_lenght=3); ConfigDict(frozn=True, extra='forbid'); a.model_copy(update={'seq': 1, 'sek': 2})"
    assert list(misused(ast.parse(text), {"seq"})) == ["Field(max_lenght=)", "ConfigDict(frozn=)", "model_copy of 'sek'"]


def test_defaults_and_constants_that_no_validator_has_seen_are_valid() -> None:
    """They are made with `model_construct`, which checks nothing."""
    made = [field.default for kind in models() for field in kind.model_fields.values() if isinstance(field.default, Document)]
    made += [DEFAULT_POLICY, DEFAULT_CLAIMS, UNSTATED, NO_QUOTA]
    assert len(made) > 30
    assert [each for each in made if type(each).model_validate_json(each.model_dump_json()) != each] == []


def test_every_model_has_a_configuration_that_pydantic_knows() -> None:
    known = KNOWN["ConfigDict"] | KNOWN["SettingsConfigDict"]
    assert [f"{kind.__name__}: {name}" for kind in models() for name in kind.model_config if name not in known] == []


def nested(annotation: Any) -> Iterator[tuple[type[BaseModel], Any]]:
    """Models in an annotation, each with the wrapper of a value of it: a function of the value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, lambda value: value
        return
    origin = typing.get_origin(annotation)
    for part in typing.get_args(annotation):
        for kind, wrap in nested(part):
            if origin in (list, tuple) or (isinstance(origin, type) and issubclass(origin, Sequence)):
                yield kind, lambda value, wrap=wrap: [wrap(value)]
            elif isinstance(origin, type) and issubclass(origin, Mapping):
                yield kind, lambda value, wrap=wrap: {"key": wrap(value)}
            else:
                yield kind, wrap


def with_unknown_field(kind: type[BaseModel], seen: frozenset[type[BaseModel]] = frozenset()) -> Iterator[dict[str, Any]]:
    """Documents with a misspelled field, one for each model inside."""
    yield {"no_such_fild": 1}
    for name, field in kind.model_fields.items():
        for inner, wrap in nested(field.annotation):
            if inner not in seen:
                for value in with_unknown_field(inner, seen | {inner}):
                    yield {field.alias or name: wrap(value)}


@pytest.mark.parametrize("kind", dict.fromkeys(DOCUMENTS), ids=lambda kind: kind.__name__)
def test_an_unknown_field_of_what_people_write_is_refused_at_every_depth(kind: type[BaseModel]) -> None:
    accepted = [
        json.dumps(value)
        for value in with_unknown_field(kind)
        if not any(place[-1] == "no_such_fild" and "no such field" in text for place, text in strict_faults(kind, value))
    ]
    assert accepted == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"sek": 5}, [(("sek",), "no such field; did you mean seq?")]),
        ({"seq": 5, "pool": "pool-a", "scope": "pool"}, []),
    ],
)
def test_a_policy_in_the_form_of_policy_show_has_no_other_fields(more: dict[str, Any], expected: list[Any]) -> None:
    """A misspelled seq would apply the policy without the check that it was made from the one in force."""
    document = {**more, "policy": policy_document(DEFAULT_POLICY)}
    policy, faults = policy_from(document)
    assert (faults, policy is None) == (expected, bool(expected))


def test_a_misspelled_field_of_a_policy_names_the_closest_one() -> None:
    _, faults = policy_from(policy_document(DEFAULT_POLICY) | {"protection": {}})
    assert faults == [(("protection",), "no such field; did you mean protections?")]
