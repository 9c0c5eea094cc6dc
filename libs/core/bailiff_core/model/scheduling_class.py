"""Scheduling classes: a digest of a gang's request. Gangs of one class fit or do not fit alike."""

import hashlib
import json
from functools import lru_cache

from bailiff_core.canonical import canonical_json

from .demand import JobDemand


def scheduling_class_of(demand: JobDemand) -> str:
    """Returns the scheduling class of the request."""
    return _digest(demand.__pydantic_serializer__.to_json(demand, include=_FIELDS | _LATER_FIELDS, exclude_defaults=True))


_FIELDS = {"tasks", "min_tasks", "sub_groups", "topology", "pack"}
_LATER_FIELDS = {"placement"}  # not in the digest where they are omitted


@lru_cache(maxsize=1024)  # many jobs have equal requests
def _digest(request: bytes) -> str:
    data = json.loads(request)
    return hashlib.sha256(canonical_json(data | {name: data.get(name) for name in _FIELDS})).hexdigest()[:16]
