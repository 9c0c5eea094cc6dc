"""A policy as people write it: a YAML file with durations such as `30s`, checked whole before anything is sent.

The contract ignores fields that it does not know, so that they can be added later; a person's typing error must not be
ignored, so here they are faults.
"""

import difflib
import json
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from bailiff_bus.validation_errors import describe_errors, value_text
from bailiff_core.model.document import SHORTEST_UNITLESS, parse_duration
from bailiff_core.model.policy import Policy
from bailiff_core.model.resource_vector import Bounds
from bailiff_core.plan.parsing import parse_grace
from bailiff_core.plan.snapshot import names_of
from bailiff_core.plan.snapshot_validation import suggest, tree_problems

from .yaml_files import Lines, Place, read_yaml

Faults = list[tuple[Place, str]]
ALSO_WRITTEN: Mapping[type[BaseModel], tuple[str, ...]] = {Bounds: ("gpus", "cpus", "memory")}


class NotAPolicy(Exception):
    """The file holds no policy. The text has every fault on a line of its own: file, line, field."""


def read_policy(path: Path) -> Policy:
    """The policy in this file. Raises `NotAPolicy`, and `UnreadableFile` where it is not YAML."""
    value, lines = inner_policy(*read_yaml(path))
    policy, faults = policy_from(value)
    if policy is None:
        raise NotAPolicy("\n".join(fault_lines(str(path), lines, faults, "policy")))
    return policy


def inner_policy(value: Any, lines: Lines) -> tuple[Any, Lines]:
    """The policy's own fields, where it stands as `policy show -o yaml` prints it."""
    if isinstance(value, dict) and isinstance(value.get("policy"), dict) and "priority_classes" not in value:
        return value["policy"], {place[1:]: line for place, line in lines.items() if place[:1] == ("policy",)}
    return value, lines


def policy_from(value: object) -> tuple[Policy | None, Faults]:
    """The policy that these JSON values are, or every fault with its place."""
    if not isinstance(value, dict):
        found = "nothing" if value is None else value_text(value)
        return None, [((), f"expected the fields of a policy ({', '.join(Policy.model_fields)}), found {found}")]
    faults = slips(Policy, value)
    trees = loose_ends(value)
    try:
        policy = Policy.model_validate_json(json.dumps(value, default=str))
    except ValidationError as error:
        faults += trees + [fault for fault in faults_of(error) if fault[0] or not trees]
        return None, faults
    except ValueError as error:  # a number of thousands of digits, a name that is no text
        return None, [*faults, ((), f"something in it cannot be read: {error}")]
    return (None if faults else policy), faults


def loose_ends(value: object, projects: Iterable[str] = ()) -> Faults:
    """Classes, projects, topologies and budgets that do not hang together, each fault at its own line.

    projects: names of those that stand elsewhere.
    """
    found = _classes_at_odds(value)
    for name in ("projects", "topologies"):
        entries = value.get(name) if isinstance(value, dict) else None
        if isinstance(entries, list) and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in entries):
            pairs = [(each["name"], each.get("parent")) for each in entries]
            found += [(fault.place, fault.text) for fault in tree_problems(pairs, (name,))]
    known = (*names_of(value.get("projects")), *projects) if isinstance(value, dict) else ()
    for at, budget in enumerate(_budgets(value)):
        wanted = budget.get("project") if isinstance(budget, dict) else None
        if isinstance(wanted, str) and wanted not in known:
            found.append((("protections", "budgets", at, "project"), f"no project {wanted!r}; {suggest(wanted, known)}"))
    return found


def _classes_at_odds(value: object) -> Faults:
    """Names that stand twice, and not just one default; nothing where entries are no classes at all."""
    classes = value.get("priority_classes") if isinstance(value, dict) else None
    if not isinstance(classes, list) or not classes or len(names := names_of(classes)) < len(classes):
        return []
    place: Place = ("priority_classes",)
    found: Faults = [((*place, at, "name"), f"{name!r} occurs twice") for at, name in enumerate(names) if name in names[:at]]
    defaults = [at for at, entry in enumerate(classes) if entry.get("global_default") is True]
    message = f"just one class is the global default, found {', '.join(names[at] for at in defaults) or 'none'}"
    if len(defaults) != 1:
        found.append(((*place, defaults[1], "global_default") if defaults else place, message))
    return found


def _budgets(value: object) -> list[Any]:
    protections = value.get("protections") if isinstance(value, dict) else None
    budgets = protections.get("budgets") if isinstance(protections, dict) else None
    return budgets if isinstance(budgets, list) else []


def faults_of(error: ValidationError) -> Faults:
    """Each fault with its place: what was expected and what was found."""
    messages = [(each["loc"], describe_errors([each]).partition(": ")[2]) for each in error.errors(include_url=False)]
    messages = [
        (place, message.replace("expected an object", "expected fields with their values")) for place, message in messages
    ]
    # messages that only follow from other errors are empty
    return [_at_its_amount(place, message) for place, message in messages if message]


def _at_its_amount(place: Place, message: str) -> tuple[Place, str]:
    """The fault of a quota or a limit, at the resource that it names first."""
    name, _, rest = message.partition(": ")
    return ((*place, name), rest) if name in ALSO_WRITTEN[Bounds] and place[-1:] != (name,) else (place, message)


def fault_lines(file: str, lines: Mapping[Place, int], faults: Iterable[tuple[Place, str]], whole: str) -> Iterator[str]:
    """`policy.yaml:7: projects.0.parent: ...` for each fault, once, in the order of the file. whole: what the file is."""
    messages = dict.fromkeys((line_of(lines, place), ".".join(map(str, place)) or whole, message) for place, message in faults)
    for line, field, message in sorted(messages, key=lambda fault: fault[0]):
        yield f"{file}:{line}: {field}: {message}"


def is_duration(field: FieldInfo) -> bool:
    """Its value is microseconds, written by people with a unit."""
    rules = [*field.metadata, *(rule for part in typing.get_args(field.annotation) for rule in typing.get_args(part)[1:])]
    return any(isinstance(rule, BeforeValidator) and rule.func in (parse_duration, parse_grace) for rule in rules)


def slips(kind: type[BaseModel], value: object, place: Place = ()) -> Faults:
    """What the contract lets pass and a person did not mean: fields that the document, or one inside it, does not have,

    each with the nearest that it has; and durations without a unit, which would be microseconds.
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
        inside = _document_in(field.annotation)
        if inside is None:
            continue
        if isinstance(inner, list):
            for index, each in enumerate(inner):
                found += slips(inside, each, (*here, index))
        elif inside is field.annotation or type(None) in typing.get_args(field.annotation):
            found += slips(inside, inner, here)
    return found


def no_such_field(name: str, known: Iterable[str]) -> str:
    """What may stand here instead."""
    alike = difflib.get_close_matches(name, known := list(known), n=1)
    return f"no such field; did you mean {alike[0]}?" if alike else f"no such field; there are {', '.join(known)}"


def _document_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in typing.get_args(annotation) if (found := _document_in(inner)) is not None), None)


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """The line of the place, or of what it lies in."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)
