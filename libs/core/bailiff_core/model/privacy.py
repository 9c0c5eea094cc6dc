"""How published datasets treat each field, as its type says: the one place for what of a log is public and what is private."""

import types
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel


@dataclass(frozen=True)
class Treatment:
    """Metadata of an annotated type: the rule that datasets apply to its values, by name, and what the rule needs."""

    rule: str
    argument: str | int = ""


PUBLIC = Treatment("public")
PRIVATE = Treatment("private")
SECRET = Treatment("secret")
"""Never in the log, nor quoted in messages about faults."""


def pseudonym(kind: str) -> Treatment:
    """A pseudonym replaces the name; equal names of one kind have one pseudonym."""
    return Treatment("pseudonym", kind)


def placeholder(value: str | int) -> Treatment:
    """A constant replaces a private value that must be there."""
    return Treatment("placeholder", value)


def treatment_of(annotation: Any) -> Treatment | None:
    """Returns what the type says; the outermost marker counts.

    Numbers, booleans and words of a closed list are public without a marker. A document says it as `TREATMENT`: the usual one is
    public, and its own fields say the rest.
    `None`: the type says nothing, so its values are private.
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        said = [each for each in annotation.__metadata__ if isinstance(each, Treatment)]
        return said[-1] if said else treatment_of(parts[0])
    if origin in (Union, types.UnionType, tuple):
        found = {treatment_of(part) for part in parts if part not in (types.NoneType, ...)}
        return found.pop() if len(found) == 1 else None
    if origin is Literal or annotation in (int, bool):
        return PUBLIC
    return getattr(annotation, "TREATMENT", None)


@cache
def treatments(kind: type[BaseModel]) -> dict[str, Treatment | None]:
    """Returns what each field of the document says."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: treatment_of(hints[name]) for name in kind.model_fields}
