"""One way to write a value as bytes, so that equal values have equal bytes everywhere."""

import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_CONTAINERS = (dict, list, tuple)
_PLAIN = frozenset({str, int, bool, type(None)})


def canonical_json(value: Any) -> bytes:
    """JSON as UTF-8 with sorted keys and no spaces. Floats and other non-JSON values are refused with a `TypeError`."""
    _refuse_floats((value,))
    return written(value)


def written(value: Any) -> bytes:
    """`canonical_json` of what is known to hold nothing but JSON values without floats."""
    return _ENCODER.encode(value).encode()


def _refuse_floats(container: Any) -> None:
    items = container.values() if isinstance(container, dict) else container
    if _PLAIN.issuperset(map(type, items)):
        return
    for item in items:
        if isinstance(item, _CONTAINERS):
            _refuse_floats(item)
        elif isinstance(item, float):
            raise TypeError(f"a record holds integers only, found the float {item!r}")
