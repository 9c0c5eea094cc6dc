"""A digest of what a gang requests: equal for gangs that fit or do not fit together."""

import hashlib
import json
from functools import lru_cache

from bailiff_core.canonical import canonical_json

from .demand import JobDemand


def scheduling_class_of(demand: JobDemand) -> str:
    """Equal for gangs that ask for the same."""
    return _digest_of_shape(demand.__pydantic_serializer__.to_json(demand, include=_SHAPE, exclude_defaults=True))


_SHAPE = {"tasks", "min_tasks", "sub_groups", "topology", "pack"}


@lru_cache(maxsize=1024)  # jobs come in many copies
def _digest_of_shape(asked: bytes) -> str:
    data = json.loads(asked)
    return hashlib.sha256(canonical_json({name: data.get(name) for name in sorted(_SHAPE)})).hexdigest()[:16]
