"""Parses untrusted request bodies, or rejects them with every error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from bailiff_bus.validation_errors import describe_errors
from bailiff_core.humanize import value_text
from bailiff_core.records.request import RequestBody
from bailiff_service.policy_files import no_such_field, strict_faults
from bailiff_service.problems import ApiError, ErrorDetail, invalid

from .request_types import KINDS, POLICY, SUBMIT

COMMON_FIELDS = {"kind": True, "id": False}
ID = re.compile(r"[A-Za-z0-9_-]{0,64}", re.ASCII)
T = TypeVar("T")
MAX_JOB, MAX_POLICY, MAX_REASON = 65_536, 262_144, 1000  # characters


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One request: body is the message, or None with the job file or policy in `yaml`. id: makes retries idempotent.

    expected_revision, enforce, lose_permissions, reason: of a policy.
    """

    kind: str
    body: RequestBody | None
    yaml: str = ""
    id: str = ""
    expected_revision: int | None = None
    enforce: bool = False
    lose_permissions: bool = False
    reason: str = ""


def fields_of(raw: bytes, allowed: Mapping[str, bool]) -> dict[str, Any]:
    """The JSON object with these fields only. allowed: whether each field is required. Raises `ApiError`."""
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ApiError(400, f"expected a JSON object, found {value_text(found)}")
    errors = [_error(name, no_such_field(name, allowed)) for name in found if name not in allowed]
    errors += [
        _error(name, "expected a value, found nothing") for name, required in allowed.items() if required and name not in found
    ]
    return _unless_invalid(found, errors)


def text_in(fields: Mapping[str, Any], name: str, most: int) -> str:
    """A string of at most `most` characters. Raises `ApiError`."""
    value = fields[name]
    if not isinstance(value, str):
        raise invalid(_error(name, f"expected text, found {value_text(value)}"))
    if len(value) > most:
        raise ApiError(413, f"{name}: expected at most {most} characters, found {len(value)}")
    return value


def parse_request(raw: bytes) -> ParsedRequest:
    """The request. Raises `ApiError` with every error."""
    try:
        kind = orjson.loads(raw).get("kind")
    except (orjson.JSONDecodeError, AttributeError):
        kind = None
    if kind == SUBMIT:
        fields = fields_of(raw, {**COMMON_FIELDS, "yaml": True})
        return ParsedRequest(SUBMIT, None, text_in(fields, "yaml", MAX_JOB), id=_id_in(fields))
    if kind == POLICY:
        return _policy(raw)
    message = KINDS.get(kind) if isinstance(kind, str) else None
    if message is None:
        fields_of(raw, {**COMMON_FIELDS, **dict.fromkeys((name for kind in KINDS.values() for name in kind.model_fields), False)})
        raise invalid(_error("kind", f"expected one of {', '.join((SUBMIT, POLICY, *KINDS))}, found {value_text(kind)}"))
    fields = fields_of(raw, {**COMMON_FIELDS, **{name: field.is_required() for name, field in message.model_fields.items()}})
    id = _id_in(fields)  # noqa: A001 - of the request
    fields = {name: value for name, value in fields.items() if name not in COMMON_FIELDS}
    errors = [_error(".".join(map(str, place)), text) for place, text in strict_faults(message, fields)]
    try:
        return ParsedRequest(str(kind), _unless_invalid(message.model_validate_json(orjson.dumps(fields)), errors), id=id)
    except ValidationError as error:
        parts = (describe_errors([each]).partition(": ") for each in error.errors(include_url=False))
        raise invalid(*errors, *[_error(where, text) for where, _, text in parts]) from None


def _policy(raw: bytes) -> ParsedRequest:
    """A policy, and the revision that it was made from: it does not overwrite a change that its author has not seen."""
    optional = dict.fromkeys(("enforce", "lose_permissions", "reason"), False)
    fields = {"reason": "", **fields_of(raw, {**COMMON_FIELDS, "yaml": True, "expected_revision": True, **optional})}
    revision = fields["expected_revision"]
    flags = {name: fields.get(name, False) for name in ("enforce", "lose_permissions")}
    errors = []
    if isinstance(revision, bool) or not isinstance(revision, int) or not 0 <= revision < 1 << 62:
        errors.append(_error("expected_revision", f"expected the number of a record, found {value_text(revision)}"))
    errors += [
        _error(name, f"expected true or false, found {value_text(flag)}")
        for name, flag in flags.items()
        if not isinstance(flag, bool)
    ]
    _unless_invalid(None, errors)
    reason = text_in(fields, "reason", MAX_REASON)
    return ParsedRequest(POLICY, None, text_in(fields, "yaml", MAX_POLICY), _id_in(fields), revision, reason=reason, **flags)


def _id_in(fields: Mapping[str, Any]) -> str:
    found = fields.get("id", "")
    if not isinstance(found, str) or not ID.fullmatch(found):
        raise invalid(_error("id", f"expected at most 64 characters A-Z a-z 0-9 - _, found {value_text(found)}"))
    return found


def _error(location: str, detail: str) -> ErrorDetail:
    return ErrorDetail(location=location, detail=detail)


def _unless_invalid(value: T, errors: list[ErrorDetail]) -> T:
    if errors:
        raise invalid(*errors)
    return value
