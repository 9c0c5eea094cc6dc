"""A policy as people write it: a YAML file with durations such as `30s`, checked whole before anything is sent.

The contract ignores fields that it does not know, so that they can be added later; a person's typing error must not be
ignored, so here they are faults.
"""

import json
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from bailiff_bus.complaints import complaints
from bailiff_bus.yamlfile import Place
from bailiff_core.model.document import MICROSECONDS, parse_duration
from bailiff_core.model.policy import Policy

from .friendly import read_yaml
from .problem import ExitCode, Problem

ADVICE = "a policy to begin with: bailiff policy show -o yaml"


def read_policy(path: Path) -> Policy:
    """The policy in this file. Raises `Problem` with every fault: file, line, field."""
    value, lines = read_yaml(path)
    if isinstance(value, dict) and isinstance(value.get("policy"), dict) and "priority_classes" not in value:
        value = value["policy"]  # as `policy show -o yaml` prints it
        lines = {place[1:]: line for place, line in lines.items() if place[:1] == ("policy",)}
    faults = [(place, "no such field") for place in unknown_fields(Policy, value)]
    try:
        policy = Policy.model_validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        faults += [(each["loc"], complaints([each]).partition(": ")[2]) for each in error.errors(include_url=False)]
    if faults:
        text = "\n".join(
            f"{path}:{_line(lines, place)}: {'.'.join(map(str, place)) or 'policy'}: {said}" for place, said in faults
        )
        raise Problem(ExitCode.FOUND_WRONG, text, ADVICE)
    return policy


def policy_document(document: BaseModel) -> dict[str, Any]:
    """The policy as a file would hold it: all fields, durations as people write them."""
    found: dict[str, Any] = {}
    for name, field in type(document).model_fields.items():
        value = getattr(document, name)
        if isinstance(value, BaseModel):
            found[name] = policy_document(value)
        elif isinstance(value, tuple):
            found[name] = [policy_document(each) if isinstance(each, BaseModel) else each for each in value]
        elif isinstance(value, dict):
            found[name] = {key: list(each) if isinstance(each, tuple) else each for key, each in value.items()}
        else:
            found[name] = exact_duration(value) if isinstance(value, int) and _is_duration(field) else value
    return found


def exact_duration(micros: int) -> str:
    """`90s`, `10m`, `7d`: the largest unit in which it is a whole number."""
    unit = max((unit for unit, size in MICROSECONDS.items() if micros % size == 0), key=lambda unit: MICROSECONDS[unit])
    return f"{micros // MICROSECONDS[unit]}{unit}" if micros else "0s"


def _is_duration(field: FieldInfo) -> bool:
    rules = [*field.metadata, *(rule for part in typing.get_args(field.annotation) for rule in typing.get_args(part)[1:])]
    return any(isinstance(rule, BeforeValidator) and rule.func is parse_duration for rule in rules)


def unknown_fields(kind: type[BaseModel], value: object, place: Place = ()) -> list[Place]:
    """The places of fields that the document, or one inside it, does not have."""
    if not isinstance(value, dict):
        return []
    found: list[Place] = []
    for name, inner in value.items():
        field = kind.model_fields.get(str(name))
        if field is None:
            found.append((*place, str(name)))
            continue
        inside = _document_in(field.annotation)
        if inside is not None:
            several = list(enumerate(inner)) if isinstance(inner, list) else [(None, inner)]
            for index, each in several:
                found += unknown_fields(inside, each, (*place, str(name)) if index is None else (*place, str(name), index))
    return found


def _document_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in typing.get_args(annotation) if (found := _document_in(inner)) is not None), None)


def _line(lines: dict[Place, int], place: Place) -> int:
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)
