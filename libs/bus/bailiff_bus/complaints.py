"""Sentences that tell a person which field is wrong, what was expected and what stood there.

Built from pydantic's errors. Values that may be private are never shown: a job's `spec` with all below it, passwords.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from bailiff_core.model.document import TEN_YEARS

PRIVATE = ("spec",)
LONGEST_SENTENCE = 300
MOST_SENTENCES = 5
LONGEST_VALUE = 60

Path = tuple[str | int, ...]

WANTED = {
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
}


def complaints(errors: Iterable[ErrorDetails]) -> str:
    """All errors as one text, at most five of them, each once."""
    sentences = list(dict.fromkeys(_sentence(error) for error in errors if not _only_follows(error)))
    shown = sentences[:MOST_SENTENCES]
    if len(sentences) > len(shown):
        shown.append(f"and {len(sentences) - len(shown)} more")
    return "; ".join(shown)


def complaint(path: Path, wanted: str, found: object) -> str:
    """One sentence, such as `demand.tasks.0.gpu_milli: expected a whole number ≥ 0, found -1`."""
    text = f"{path_text(path)}: expected {wanted}"
    if not is_private(path):
        text += f", found {found_text(found)}"
    return shortened(text, LONGEST_SENTENCE)


def path_text(path: Path) -> str:
    """The path with dots; nothing below a private field, and what pydantic adds for unions left out."""
    if path[:1] == PRIVATE:
        path = path[:2]
    parts = [str(part) for part in path if not (isinstance(part, str) and _is_made_up(part))]
    return ".".join(shortened(_printable(part), LONGEST_VALUE) for part in parts) or "data"


def is_private(path: Path) -> bool:
    """Whether what stands there must not be repeated to anybody."""
    return path[:1] == PRIVATE or "password" in path


def found_text(value: object) -> str:
    """A value as a person would write it, shortened; what lies inside a list or an object stays out."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return shortened(json.dumps(value[: LONGEST_VALUE + 1]), LONGEST_VALUE)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    return shortened(str(value), LONGEST_VALUE)


def shortened(text: str, most: int) -> str:
    """The text, cut to at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _sentence(error: ErrorDetails) -> str:
    path: Path = error["loc"]
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return shortened(f"{path_text(path)}: expected a value, found nothing", LONGEST_SENTENCE)
    if kind in {"value_error", "assertion_error"}:
        said = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if is_private(path):
            said = "not acceptable"  # a validator may quote what it found
        return shortened(f"{path_text(path)}: {said}", LONGEST_SENTENCE)
    return complaint(path, _wanted(kind, context, error["msg"]), error["input"])


def _wanted(kind: str, context: dict[str, Any], message: str) -> str:
    if context.get("le") == TEN_YEARS:
        return "at most 3650d"
    for limit, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if limit in context:
            return f"a whole number {sign} {context[limit]}"
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    for limit, words in (("min_length", "at least"), ("max_length", "at most")):
        if limit in context:
            thing = ("character", "characters") if kind.startswith("string") else ("entry", "entries")
            return f"{words} {context[limit]} {thing[context[limit] != 1]}"
    if "expected" in context:
        return str(context["expected"])
    return WANTED.get(kind, message.removeprefix("Input should be ").removeprefix("a valid "))


def _only_follows(error: ErrorDetails) -> bool:
    """pydantic calls a list too short when its entries were wrong; the entries' own errors say it better."""
    value = error["input"]
    return error["type"] == "too_short" and isinstance(value, Sequence) and len(value) >= error["ctx"]["min_length"]


def _is_made_up(part: str) -> bool:
    return part.startswith(("tuple[", "list[", "dict[", "constrained-", "function-", "literal[")) or part == "[key]"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text[: LONGEST_VALUE + 1])
