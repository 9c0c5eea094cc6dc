"""Scheduling classes: a digest of a gang's request. Gangs of one class fit or do not fit alike."""

import hashlib
import json
from functools import lru_cache

from bailiff_core.canonical import canonical_json

from .demand import JobDemand, TaskGroup


def scheduling_class_of(demand: JobDemand) -> str:
    """Returns the scheduling class of the request."""
    return _digest(demand.__pydantic_serializer__.to_json(demand, include=_FIELDS | _LATER_FIELDS, exclude_defaults=True))


def shared_parts(demand: JobDemand, scheduling_class: str) -> JobDemand:
    """Lets a demand share what many jobs have alike: its tasks, no labels, and the sets of its fields' names.

    They take two thirds of a pending job's memory.

    Returns:
        The same demand.
    """
    tasks = _TASKS.get(scheduling_class)
    if tasks == demand.tasks:
        demand.__dict__["tasks"] = tasks
    else:
        if len(_TASKS) >= MOST_SHARED:
            _TASKS.clear()
        _TASKS[scheduling_class] = demand.tasks
    if not demand.labels:
        demand.__dict__["labels"] = _NO_LABELS
    for model in (demand, *demand.tasks):
        names = model.__pydantic_fields_set__
        object.__setattr__(model, "__pydantic_fields_set__", _FIELDS_SETS.setdefault(frozenset(names), names))
    return demand


MOST_SHARED = 1024  # scheduling classes
_TASKS: dict[str, tuple[TaskGroup, ...]] = {}
_NO_LABELS: dict[str, str] = {}
_FIELDS_SETS: dict[frozenset[str], set[str]] = {}
_FIELDS = {"tasks", "min_tasks", "sub_groups", "topology", "pack"}
_LATER_FIELDS = {"placement"}  # not in the digest where they are omitted


@lru_cache(maxsize=1024)  # many jobs have equal requests
def _digest(request: bytes) -> str:
    data = json.loads(request)
    return hashlib.sha256(canonical_json(data | {name: data.get(name) for name in _FIELDS})).hexdigest()[:16]
