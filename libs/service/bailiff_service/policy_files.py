"""Reads and validates policy files: YAML with durations such as `30s`.

The message format ignores unknown fields, so that fields can be added later. In a file an unknown field is probably a typing
error, so it is a fault here.
"""

import difflib
import json
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.humanize import value_text
from bailiff_core.model.document import SHORTEST_UNITLESS, parse_duration, parse_grace
from bailiff_core.model.policy import Policy
from bailiff_core.model.references import class_faults, group_faults, names_of, project_faults, tree_faults
from bailiff_core.model.resource_vector import Bounds

from .yaml_files import Place, line_of, read_yaml

Faults = list[tuple[Place, str]]
SHOWN_FIELDS = ("pool", "seq", "scope", "policy")
"""Fields of `policy show -o yaml`."""
ALSO_WRITTEN: Mapping[type[BaseModel], tuple[str, ...]] = {Bounds: ("gpus", "cpus", "memory", "models")}


class InvalidPolicy(Exception):
    """The file is not a valid policy. The text has one line per fault: file, line, field, reason."""


def read_policy(path: Path) -> Policy:
    """The policy in this file. Raises `InvalidPolicy`; `UnreadableFile` if it is not YAML."""
    value, lines = read_yaml(path)
    policy, faults = policy_from(value)
    if policy is None:
        raise InvalidPolicy("\n".join(fault_lines(str(path), lines, faults, "policy")))
    return policy


def policy_from(value: object) -> tuple[Policy | None, Faults]:
    """The policy of these JSON values, or None and all faults with their places.

    The policy may be nested under `policy`, as `policy show -o yaml` prints it.
    """
    if not isinstance(value, dict) or not isinstance(value.get("policy"), dict):
        return _bare_policy(value)
    faults: Faults = [((str(name),), no_such_field(str(name), SHOWN_FIELDS)) for name in value if name not in SHOWN_FIELDS]
    policy, inner = _bare_policy(value["policy"])
    faults += [(("policy", *place), text) for place, text in inner]
    return (None if faults else policy), faults


def _bare_policy(value: object) -> tuple[Policy | None, Faults]:
    if not isinstance(value, dict):
        found = "nothing" if value is None else value_text(value)
        return None, [((), f"expected the fields of a policy ({', '.join(Policy.model_fields)}), found {found}")]
    faults = strict_faults(Policy, value)
    trees = reference_faults(value)
    try:
        policy = Policy.model_validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        faults += trees + [fault for fault in faults_of(error) if fault[0] or not trees]
        return None, faults
    except ValueError as error:  # a number with too many digits, a key that is not text
        return None, [*faults, ((), f"a value cannot be read: {error}")]
    return (None if faults else policy), faults


def reference_faults(value: object, projects: Iterable[str] = ()) -> Faults:
    """Faults in names and references between classes, projects, GPU groups, topologies and budgets; of what is well-formed.

    projects: names of projects declared elsewhere.
    """
    found: Faults = []
    if classes := _named(value, "priority_classes"):
        found += class_faults([(each["name"], each.get("global_default") is True) for each in classes])
    for name in ("projects", "topologies"):
        found += tree_faults([(each["name"], each.get("parent")) for each in _named(value, name)], (name,))
    if isinstance(value, dict):
        found += _group_faults(value)
    protections = value.get("protections") if isinstance(value, dict) else None
    budgets = protections.get("budgets") if isinstance(protections, dict) else None
    if isinstance(value, dict) and isinstance(budgets, list):
        wanted = [budget.get("project") if isinstance(budget, dict) else None for budget in budgets]
        texts = [name if isinstance(name, str) else None for name in wanted]
        found += project_faults(texts, (*names_of(value.get("projects")), *projects), ("protections", "budgets"))
    return found


def _group_faults(value: dict[str, Any]) -> Faults:
    """Of groups of GPU models that are lists of texts; what quotas and limits name."""
    groups = value.get("gpu_groups")
    groups = groups if isinstance(groups, dict) else {}
    lists = {str(name): models for name, models in groups.items() if isinstance(models, list)}
    texts = {name: models for name, models in lists.items() if all(isinstance(model, str) for model in models)}
    bounds = [each.get(kind) for each in _named(value, "projects") for kind in ("quota", "limit")]
    named = [each.get(field) for each in bounds if isinstance(each, dict) for field in ("models", "by_model")]
    return list(group_faults(texts, [str(name) for each in named if isinstance(each, dict) for name in each], ("gpu_groups",)))


def _named(value: object, field: str) -> list[dict[str, Any]]:
    """The entries of this list of the policy; none if not all have a name."""
    entries = value.get(field) if isinstance(value, dict) else None
    return entries if isinstance(entries, list) and len(names_of(entries)) == len(entries) else []


def faults_of(error: ValidationError) -> Faults:
    """The faults of a validation error: place, expected value, value found."""
    messages = [(each["loc"], describe_errors([each]).partition(": ")[2]) for each in error.errors(include_url=False)]
    messages = [
        (place, message.replace("expected an object", "expected fields with their values")) for place, message in messages
    ]
    # a message that is only a consequence of other errors is empty
    return [_at_resource(place, message) for place, message in messages if message]


def _at_resource(place: Place, message: str) -> tuple[Place, str]:
    """Move a fault of a quota or limit to the resource named at the start of its message."""
    name, _, rest = message.partition(": ")
    return ((*place, name), rest) if name in ALSO_WRITTEN[Bounds] and place[-1:] != (name,) else (place, message)


def fault_lines(file: str, lines: Mapping[Place, int], faults: Iterable[tuple[Place, str]], whole: str) -> Iterator[str]:
    """Distinct faults as lines `policy.yaml:7: projects.0.parent: ...`, in file order. whole: place of faults without a field."""
    messages = dict.fromkeys((line_of(lines, place), ".".join(map(str, place)) or whole, message) for place, message in faults)
    for line, field, message in sorted(messages, key=lambda fault: fault[0]):
        yield f"{file}:{line}: {field}: {message}"


def is_duration(field: FieldInfo) -> bool:
    """Whether the field is a duration: microseconds, or text with a unit."""
    rules = [*field.metadata, *(rule for part in typing.get_args(field.annotation) for rule in typing.get_args(part)[1:])]
    return any(isinstance(rule, BeforeValidator) and rule.func in (parse_duration, parse_grace) for rule in rules)


def strict_faults(kind: type[BaseModel], value: object, place: Place = ()) -> Faults:
    """Probable typing errors that the message format accepts, in this document and nested ones.

    Unknown fields, with the closest known name, and small durations without a unit, which would be microseconds.
    """
    if not isinstance(value, dict):
        return []
    found: Faults = []
    fields = {field.alias or name: field for name, field in kind.model_fields.items()}
    for name, inner in value.items():
        field = fields.get(str(name))
        if field is None:
            if str(name) not in ALSO_WRITTEN.get(kind, ()):
                found.append(((*place, str(name)), no_such_field(str(name), [*fields, *ALSO_WRITTEN.get(kind, ())])))
            continue
        here = (*place, str(name))
        if is_duration(field) and type(inner) is int and 0 < inner < SHORTEST_UNITLESS:
            found.append((here, f"{inner} would be {inner} microseconds: write the unit, as in {inner}s"))
        nested = _document_in(field.annotation)
        if nested is None:
            continue
        if isinstance(inner, list):
            for index, each in enumerate(inner):
                found += strict_faults(nested, each, (*here, index))
        elif nested is field.annotation or type(None) in typing.get_args(field.annotation):
            found += strict_faults(nested, inner, here)
    return found


def no_such_field(name: str, known: Iterable[str]) -> str:
    """The message for an unknown field, with the closest known name or all names."""
    matches = difflib.get_close_matches(name, known := list(known), n=1)
    return f"no such field; did you mean {matches[0]}?" if matches else f"no such field; known fields: {', '.join(known)}"


def _document_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in typing.get_args(annotation) if (found := _document_in(inner)) is not None), None)
