"""Canonical JSON: equal values have equal bytes on every machine."""

import json
from typing import Any

import orjson

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_LIKE_THE_ENCODER = (
    orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_CONTAINERS = (dict, list, tuple)
_SCALARS = (str, int)
_PLAIN = frozenset({str, int, bool, type(None)})


def canonical_json(value: Any) -> bytes:
    """Returns JSON as UTF-8 with sorted keys and no spaces.

    Raises:
        TypeError: A value is a float or no JSON.
    """
    _refuse_others((value,))
    return json_bytes(value)


def json_bytes(value: Any) -> bytes:
    """Returns `canonical_json` without the check, for values known to be JSON without floats.

    Python's encoder defines the form and encodes what orjson refuses, such as integers of more than 64 bits.
    """
    try:
        return orjson.dumps(value, option=_LIKE_THE_ENCODER)
    except TypeError:
        return _ENCODER.encode(value).encode()


def _refuse_others(container: Any) -> None:
    items = container.values() if isinstance(container, dict) else container
    if _PLAIN.issuperset(map(type, items)):
        return
    for item in items:
        if isinstance(item, _CONTAINERS):
            _refuse_others(item)
        elif isinstance(item, float):
            raise TypeError(f"a record holds integers only, found the float {item!r}")
        elif item is not None and not isinstance(item, _SCALARS):
            raise TypeError(f"{item!r} is no JSON value")
