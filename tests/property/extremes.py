"""Messages at their extremes: of every type, from its JSON schema, so that a new field is tried without being listed here.

Numbers at both ends of their range, texts empty, longest, in other scripts and with control marks, lists empty, repeated and
longest. Names are mostly those of things that exist, so that the message has an effect.
"""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from pydantic import ValidationError

from bailiff_core.engine import LOGIC
from bailiff_core.model.document import MAX_INTEGER
from bailiff_core.model.message import MessageBody
from bailiff_core.model.policy import DEFAULT_POLICY
from bailiff_core.model.state import PoolState

Schema = Mapping[str, Any]
LONGEST = 3_000  # where the schema has no limit
MOST_ITEMS = 64
TEXTS = ("", "x", "ü\u202e\u0085🦊", "\u0000"[:0] + "a\tb\nc", "ﷺ" * 80, "' OR 1=1 --", "\\u0000")
PATTERNS = {
    "^[a-z0-9](": ("a", "0" + "-._" * 20 + "9", "job-1", "unknown"),
    "^[0-9a-f]{64}$": ("0" * 64, "f" * 64),
    "^[A-Za-z0-9_-]+$": ("A", "_"),
    "^[^/]+/[^/]+/": ("test/n1/9.9/9", f"test/n1/{MAX_INTEGER}.{MAX_INTEGER}/{MAX_INTEGER}"),
}
TRIES = 60
NEEDED = {
    "demand": {"job": "new", "tasks": [{"gpu_milli": 1000}]},
    "tasks": [{"gpu_milli": 1000}],
    "spec": {"command": ["true"]},
    "command": ["true"],
    "job": "new",
}
"""Valid values of fields that must be there."""


def extreme_message(kind: type[MessageBody], state: PoolState, random: Random) -> MessageBody | None:
    """One message of this type, without the values that are not valid together; None if nothing valid is left."""
    schema, known = kind.model_json_schema(), _known(state)
    known[""] = [random.randrange(3)]  # how deep the longest list is; others are short
    value = _object(schema, schema.get("$defs", {}), random, known)
    _agree(value, state, random)
    for _ in range(TRIES):
        try:
            return kind.model_validate_json(json.dumps(value))
        except ValidationError as error:
            _without(value, error, random)
    return None


def _agree(value: dict[str, Any], state: PoolState, random: Random) -> None:
    """Mostly the message is about one task that exists, on its node, or about an eviction or a job that exists or is new."""
    if not random.randrange(6):
        return
    if "demand" in value:
        value["demand"]["job"] = f"new-{state.seq}"
    tasks = [(job, task) for job in state.active_jobs() for task in job.tasks if task.state not in ("reserved", "released")]
    if {"node", "job", "attempt", "task"} <= value.keys() and tasks:
        job, task = random.choice(tasks)
        value |= {"job": job.id, "attempt": job.attempt, "task": task.index, "node": state.nodes[task.node].name}
        value["ordered_by"] = random.choice([None, state.seq, MAX_INTEGER])
    if "incarnation" in value and value.get("node") in state.node_numbers:
        node = state.nodes[state.node_numbers[value["node"]]]
        value |= {"incarnation": node.incarnation, "number": node.last_report + 1 + state.seq}
        if "device" in value and node.devices:
            value["device"] = random.choice(node.devices).id
    decided = [job for job in state.active_jobs() if job.eviction is not None and job.eviction.started_seq is None]
    if "decided_by" in value and decided:
        job = random.choice(decided)
        assert job.eviction is not None
        value |= {"job": job.id, "attempt": job.attempt, "decided_by": job.eviction.decided_seq}


def _without(value: dict[str, Any], error: ValidationError, random: Random) -> None:
    """Remove what this error is about, or fill in what it misses."""
    where = [step for step in error.errors()[0]["loc"] if isinstance(step, int | str)]
    inside: Any = value
    while where:
        step = where.pop(0)
        if isinstance(inside, dict) and step not in inside:
            if step in NEEDED:
                inside[step] = NEEDED[step]
            return
        deeper = inside[step] if isinstance(inside, dict) or (isinstance(inside, list) and isinstance(step, int)) else None
        if not isinstance(deeper, dict | list) or not deeper or not where:
            del inside[step]
            return
        inside = deeper
    if isinstance(inside, dict) and inside:
        del inside[random.choice(list(inside))]


def _known(state: PoolState) -> dict[str, list[Any]]:
    """Values that exist, by the field's name."""
    nodes, jobs = list(state.nodes.values()), list(state.jobs.values())
    return {
        "node": [node.name for node in nodes],
        "incarnation": [node.incarnation for node in nodes],
        "machine_id": [node.machine_id for node in nodes],
        "boot_id": [node.boot_id for node in nodes],
        "job": [job.id for job in jobs],
        "attempt": [1, 1, 2],
        "task": [0, 0, 1],
        "device": [device.id for node in nodes for device in node.devices],
        "ordered_by": [None, state.seq],
        "preemption": list(state.preemptions),
        "decided_by": [job.eviction.decided_seq for job in jobs if job.eviction is not None],
        "selection": [state.selection.number] if state.selection is not None else [],
        "request": [each.seq for each in state.selection.requests] if state.selection is not None else [],
        "computed_at": [state.seq],
        "logic": [LOGIC],
        "priority_class": [each.name for each in state.rules.priority_classes],
    }


def _any(schema: Schema, defs: Schema, random: Random, known: dict[str, list[Any]], name: str = "", depth: int = 0) -> Any:
    if name and known.get(name) and random.randrange(8):
        return random.choice(known[name])
    if name == "policy":
        return _policy(random)
    if "$ref" in schema:
        return _any(defs[schema["$ref"].rpartition("/")[2]], defs, random, known, name, depth)
    if "anyOf" in schema or "oneOf" in schema:
        return _any(random.choice(schema.get("anyOf") or schema["oneOf"]), defs, random, known, name, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    match schema.get("type"):
        case "object":
            return _object(schema, defs, random, known, depth)
        case "array":
            return _array(schema, defs, random, known, name, depth)
        case "integer":
            low, high = schema.get("minimum", -MAX_INTEGER), schema.get("maximum", MAX_INTEGER)
            return random.choice([low, high, high - 1, *(number for number in (-1, 0, 1, 2, 10**14) if low <= number <= high)])
        case "boolean":
            return random.choice([True, False])
        case "string":
            return _text(schema, random)
    return None


def _object(schema: Schema, defs: Schema, random: Random, known: dict[str, list[Any]], depth: int = 0) -> dict[str, Any]:
    required, found = schema.get("required", ()), {}
    for name, part in schema.get("properties", {}).items():
        if name in required or random.randrange(2):
            found[name] = _any(part, defs, random, known, name, depth)
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        for key in random.sample(TEXTS, random.randrange(3)):
            found[key] = _any(more, defs, random, known)
    return found


def _array(schema: Schema, defs: Schema, random: Random, known: dict[str, list[Any]], name: str, depth: int) -> list[Any]:
    if "prefixItems" in schema:
        return [_any(part, defs, random, known) for part in schema["prefixItems"]]
    low, high = schema.get("minItems", 0), min(schema.get("maxItems", MOST_ITEMS), MOST_ITEMS)
    size = high if [depth] == known[""] else min(high, random.choice([low, low + 1, low + 1]))
    one = [_any(schema["items"], defs, random, known, name.removesuffix("s"), depth + 1) for _ in range(min(size, 3))]
    return (one * size)[:size]


def _text(schema: Schema, random: Random) -> str:
    low, high = schema.get("minLength", 0), schema.get("maxLength", LONGEST)
    for begin, texts in PATTERNS.items():
        if schema.get("pattern", "").startswith(begin):
            return (random.choice(texts) * (low or 1))[:high]
    return (random.choice((*TEXTS, "y" * high, "🦊" * high)) or "x" * low)[:high]


def _policy(random: Random) -> Any:
    """The default policy with one number at an extreme."""
    data = DEFAULT_POLICY.model_dump(mode="json")
    inside: Any = data
    while True:
        key = random.choice(list(inside) if isinstance(inside, dict) else list(range(len(inside))))
        value = inside[key]
        if isinstance(value, dict | list) and value:
            inside = value
        elif isinstance(value, int) and not isinstance(value, bool):
            inside[key] = random.choice([0, 1, -1, MAX_INTEGER, 315_360_000_000_000])
            return data
        elif random.randrange(2):
            return data
        else:
            inside = data
