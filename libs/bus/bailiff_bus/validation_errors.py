"""Describes validation errors as text: the invalid field, the expected value, the value found.

Built from pydantic's errors. Secrets are never shown: a job's `spec` with all its fields, passwords.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic_core import ErrorDetails

from bailiff_core.humanize import MAX_VALUE_LENGTH, shortened, value_text
from bailiff_core.model.document import MIG_PATTERN
from bailiff_core.model.privacy import SECRET, treatments

MAX_SENTENCE_LENGTH = 300
MAX_SENTENCES = 5
HOUR = 3_600_000_000  # µs

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
    if not is_secret(path):
        text += f", found {value_text(found)}"
    return shortened(text, MAX_SENTENCE_LENGTH)


def path_text(path: Path) -> str:
    """The path with dots, without the parts that pydantic adds for unions; nothing below a secret field."""
    if _secret_fields().intersection(path[:1]):
        path = path[:2]
    parts = [str(part) for part in path if not (isinstance(part, str) and _is_union_part(part))]
    return ".".join(shortened(_printable(part), MAX_VALUE_LENGTH) for part in parts) or "data"


def is_secret(path: Path) -> bool:
    """Whether the value at this path must not be shown."""
    return bool(_secret_fields().intersection(path[:1])) or "password" in path


@cache
def _secret_fields() -> frozenset[str]:
    """The fields of a submission that are secret by their types."""
    from bailiff_core.records.facts import SubmitJob  # slow to import, and only faults need it

    return frozenset(name for name, said in treatments(SubmitJob).items() if said == SECRET)


def _sentence(error: ErrorDetails) -> str:
    path: Path = error["loc"]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return shortened(f"{path_text(path)}: expected a value, found nothing", MAX_SENTENCE_LENGTH)
    if kind in {"value_error", "assertion_error"}:
        reason = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if is_secret(path):
            reason = "invalid value"  # a validator may quote the secret
        return shortened(f"{path_text(path)}: {reason}", MAX_SENTENCE_LENGTH)
    return describe_error(path, _expected(kind, context, error["msg"]), error["input"])


def _expected(kind: str, context: dict[str, Any], message: str) -> str:
    for limit, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if bound := context.get(limit):
            hours, rest = divmod(bound, HOUR)
            if not rest:  # only durations have such bounds
                return f"at {'least' if limit == 'ge' else 'most'} {f'{hours // 24}d' if hours % 24 == 0 else f'{hours}h'}"
        if limit in context:
            return f"a whole number {sign} {bound}"
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
