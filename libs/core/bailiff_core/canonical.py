"""One way to write a value as bytes, so that equal values have equal bytes everywhere."""

import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """JSON as UTF-8 with sorted keys and no spaces. Floats and other non-JSON values are refused with a `TypeError`."""
    _refuse_floats(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError(f"a record holds integers only, found the float {value!r}")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_floats(item)
