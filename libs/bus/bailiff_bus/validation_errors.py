"""Describes validation errors as text: the invalid field, the expected value, the value found.

Built from pydantic's errors. Private values are never shown: a job's `spec` with all its fields, passwords.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from bailiff_core.model.document import MIG_PATTERN, TEN_YEARS

PRIVATE_FIELDS = ("spec",)
MAX_SENTENCE_LENGTH = 300
MAX_SENTENCES = 5
MAX_VALUE_LENGTH = 60

Path = tuple[str | int, ...]

EXPECTED = {
    "missing": "a value",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list",
    "extra_forbidden": "no such field",
}
NAME_PATTERN = "^[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?$"
PATTERNS = {
    NAME_PATTERN: "a name of at most 63 characters a-z 0-9 - . _ that begins and ends with a letter or digit",
    "^[0-9a-f]{64}$": "64 hexadecimal digits",
    MIG_PATTERN: "a MIG profile such as 3g.40gb",
}


def describe_errors(errors: Iterable[ErrorDetails]) -> str:
    """All errors as one text: distinct, at most five."""
    sentences = list(dict.fromkeys(_sentence(error) for error in errors if not _is_consequence(error)))
    shown = sentences[:MAX_SENTENCES]
    if len(sentences) > len(shown):
        shown.append(f"and {len(sentences) - len(shown)} more")
    return "; ".join(shown)


def describe_error(path: Path, expected: str, found: object) -> str:
    """One sentence, such as `demand.tasks.0.gpu_milli: expected a whole number ≥ 0, found -1`."""
    text = f"{path_text(path)}: expected {expected}"
    if not is_private(path):
        text += f", found {value_text(found)}"
    return shortened(text, MAX_SENTENCE_LENGTH)


def path_text(path: Path) -> str:
    """The path with dots, without the parts that pydantic adds for unions; nothing below a private field."""
    if path[:1] == PRIVATE_FIELDS:
        path = path[:2]
    parts = [str(part) for part in path if not (isinstance(part, str) and _is_union_part(part))]
    return ".".join(shortened(_printable(part), MAX_VALUE_LENGTH) for part in parts) or "data"


def is_private(path: Path) -> bool:
    """Whether the value at this path must not be shown."""
    return path[:1] == PRIVATE_FIELDS or "password" in path


def value_text(value: object) -> str:
    """A value as text, shortened; lists and objects are summarised."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return shortened(json.dumps(value[: MAX_VALUE_LENGTH + 1]), MAX_VALUE_LENGTH)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    return shortened(str(value), MAX_VALUE_LENGTH)


def shortened(text: str, limit: int) -> str:
    """The text, cut to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _sentence(error: ErrorDetails) -> str:
    path: Path = error["loc"]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return shortened(f"{path_text(path)}: expected a value, found nothing", MAX_SENTENCE_LENGTH)
    if kind in {"value_error", "assertion_error"}:
        reason = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if is_private(path):
            reason = "invalid value"  # a validator may quote the private value
        return shortened(f"{path_text(path)}: {reason}", MAX_SENTENCE_LENGTH)
    return describe_error(path, _expected(kind, context, error["msg"]), error["input"])


def _expected(kind: str, context: dict[str, Any], message: str) -> str:
    if context.get("le") == TEN_YEARS:
        return "at most 3650d"
    for limit, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if limit in context:
            return f"a whole number {sign} {context[limit]}"
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    for limit, phrase in (("min_length", "at least"), ("max_length", "at most")):
        if limit in context:
            unit = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
            return f"{phrase} {context[limit]} {unit[context[limit] != 1]}"
    if "expected" in context:
        return str(context["expected"])
    return EXPECTED.get(kind, message.removeprefix("Input should be ").removeprefix("a valid "))


def _is_consequence(error: ErrorDetails) -> bool:
    """pydantic calls a list too short when its entries are invalid: the entries' own errors suffice."""
    value = error["input"]
    return error["type"] == "too_short" and isinstance(value, Sequence) and len(value) >= error["ctx"]["min_length"]


def _is_union_part(part: str) -> bool:
    return part.startswith(("tuple[", "list[", "dict[", "constrained-", "function-", "literal[")) or part == "[key]"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text[: MAX_VALUE_LENGTH + 1])
