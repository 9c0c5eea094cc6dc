"""Bodies of requests to the console, which anybody may have written: read, or refused with every fault."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from bailiff_bus.complaints import complaints, found_text
from bailiff_bus.messages import RequestBody
from bailiff_bus.policyfile import no_such_field, slips
from bailiff_console.problems import Fault, Refused

from .kinds import KINDS, SUBMIT

OF_ALL = {"kind": True, "id": False}
ID = re.compile(r"[A-Za-z0-9_-]{0,64}", re.ASCII)
Some = TypeVar("Some")
LARGEST_JOB, LARGEST_POLICY = 65_536, 262_144  # characters


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: of these the message, or with `submit` the job file that somebody wrote. id: whoever repeats it asks once."""

    kind: str
    body: RequestBody | None
    yaml: str = ""
    id: str = ""


def fields_of(raw: bytes, allowed: Mapping[str, bool]) -> dict[str, Any]:
    """The JSON object, with these fields and no others. allowed: whether each has to be there. Raises `Refused`."""
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, f"expected a JSON object, found {found_text(found)}")
    faults = [fault(name, no_such_field(name, allowed)) for name in found if name not in allowed]
    faults += [fault(name, "expected a value, found nothing") for name, needed in allowed.items() if needed and name not in found]
    return _unless(found, faults)


def text_in(fields: Mapping[str, Any], name: str, most: int) -> str:
    """A text of at most so many characters. Raises `Refused`."""
    value = fields[name]
    if not isinstance(value, str):
        raise _refused([fault(name, f"expected text, found {found_text(value)}")])
    if len(value) > most:
        raise Refused(413, f"{name}: expected at most {most} characters, found {len(value)}")
    return value


def asked_in(raw: bytes) -> Asked:
    """The request. Raises `Refused` with every fault."""
    try:
        kind = orjson.loads(raw).get("kind")
    except (orjson.JSONDecodeError, AttributeError):
        kind = None
    if kind == SUBMIT:
        fields = fields_of(raw, {**OF_ALL, "yaml": True})
        return Asked(SUBMIT, None, text_in(fields, "yaml", LARGEST_JOB), id=_id_in(fields))
    message = KINDS.get(kind) if isinstance(kind, str) else None
    if message is None:
        fields_of(raw, {**OF_ALL, **dict.fromkeys((name for kind in KINDS.values() for name in kind.model_fields), False)})
        raise _refused([fault("kind", f"expected one of {', '.join((SUBMIT, *KINDS))}, found {found_text(kind)}")])
    fields = fields_of(raw, {**OF_ALL, **{name: field.is_required() for name, field in message.model_fields.items()}})
    id = _id_in(fields)  # noqa: A001 - of the request
    fields = {name: value for name, value in fields.items() if name not in OF_ALL}
    faults = [fault(".".join(map(str, place)), said) for place, said in slips(message, fields)]
    try:
        return Asked(str(kind), _unless(message.model_validate_json(orjson.dumps(fields)), faults), id=id)
    except ValidationError as error:
        told = (complaints([each]).partition(": ") for each in error.errors(include_url=False))
        raise _refused(faults + [fault(where, said) for where, _, said in told]) from None


def _id_in(fields: Mapping[str, Any]) -> str:
    found = fields.get("id", "")
    if not isinstance(found, str) or not ID.fullmatch(found):
        raise _refused([fault("id", f"expected at most 64 characters A-Z a-z 0-9 - _, found {found_text(found)}")])
    return found


def fault(where: str, text: str) -> Fault:
    """One of them."""
    return {"where": where, "text": text}


def _unless(found: Some, faults: list[Fault]) -> Some:
    if faults:
        raise _refused(faults)
    return found


def _refused(faults: list[Fault]) -> Refused:
    return Refused(400, "; ".join(f"{each['where']}: {each['text']}" for each in faults[:5]), faults)
