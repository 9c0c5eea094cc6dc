"""Errors as `application/problem+json` (RFC 9457): parameter, value found, values allowed."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bailiff_auditor.database import UNREACHABLE
from bailiff_service.logs import logger

from .responses import JsonResponse

TITLES = {
    400: "invalid parameter", 401: "token required", 404: "not found", 405: "read-only API",
    500: "internal error", 503: "temporarily unavailable",
}  # fmt: skip
RETRY_AFTER = "2"
REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


class Fault(BaseModel):
    """One invalid parameter."""

    parameter: str = Field(description="Its name.", examples=["limit"])
    found: str = Field(description="The value given, truncated to 100 characters.", examples=["100000"])
    allowed: str = Field(description="The allowed values.", examples=["Input should be less than or equal to 1000"])


class ProblemDetails(BaseModel):
    """A problem document."""

    title: str = Field(examples=["invalid parameter"])
    status: int = Field(examples=[400])
    detail: str = Field(
        description="In a sentence.", examples=["limit: found 100000; Input should be less than or equal to 1000"]
    )
    errors: list[Fault] = Field(default=[], description="One per invalid parameter.")


class BadParameter(Exception):
    """400: invalid parameters."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults


class NotFound(Exception):
    """404. The text names what does not exist."""


class Unavailable(Exception):
    """503. The text gives the reason."""


class NotModified(Exception):
    """304: the client has this response already."""

    def __init__(self, etag: str) -> None:
        self.etag = etag


def bad(parameter: str, found: object, allowed: str) -> BadParameter:
    """One invalid parameter."""
    return BadParameter(Fault(parameter=parameter, found=shown(found), allowed=allowed))


def shown(found: object) -> str:
    """The value, truncated."""
    return str(found)[:100]


def problem(status: int, detail: str, errors: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> Response:
    """The response."""
    body = {"title": TITLES.get(status, "request rejected"), "status": status, "detail": detail}
    return JsonResponse(
        body | ({"errors": [fault.model_dump() for fault in errors]} if errors else {}),
        status_code=status, headers=dict(headers or {}), media_type="application/problem+json",
    )  # fmt: skip


def _faults(faults: Sequence[Fault]) -> Response:
    detail = "; ".join(f"{fault.parameter}: found {fault.found or 'nothing'}; allowed: {fault.allowed}" for fault in faults)
    return problem(400, detail, faults)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = []
    for each in error.errors():
        location: Any = each["loc"]
        given = each.get("input")
        found = "nothing" if each["type"] == "missing" else shown(given)
        faults.append(
            Fault(
                parameter=str(location[1] if len(location) > 1 else location[0]),
                found=found,
                allowed=each["msg"].removeprefix("Value error, "),
            )
        )
    return _faults(faults)


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return problem(405, "GET and HEAD only", headers={"allow": "GET, HEAD"})
    return problem(error.status_code, "unknown path; see /v1/openapi.json")


def _database(_: Request, error: Exception) -> Response:
    if isinstance(error, asyncpg.QueryCanceledError):
        return problem(503, "the query timed out: narrow it with filters, or with from and to")
    if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError | asyncpg.InsufficientPrivilegeError):
        return problem(503, f"the archive cannot be read yet: {error}", headers={"retry-after": RETRY_AFTER})
    if isinstance(error, asyncpg.DataError):
        return problem(400, f"PostgreSQL rejects a value: {error}")
    if isinstance(error, (*UNREACHABLE, *REFUSED)):
        return problem(503, "PostgreSQL is unavailable", headers={"retry-after": RETRY_AFTER})
    return _internal(_, error)


def _internal(_: Request, error: Exception) -> Response:
    trace = "".join(traceback.format_exception(error))
    logger().error(f"internal error: {type(error).__name__}: {error}", traceback=trace)
    return problem(500, "internal error; details are in the service's log; please report it")


def register(app: FastAPI) -> None:
    """Register the exception handlers."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BadParameter, lambda _, error: _faults(error.faults))
    app.add_exception_handler(NotFound, lambda _, error: problem(404, str(error)))
    app.add_exception_handler(Unavailable, lambda _, error: problem(503, str(error), headers={"retry-after": RETRY_AFTER}))
    app.add_exception_handler(
        NotModified,
        lambda _, error: Response(status_code=304, headers={"etag": error.etag}),
    )
    for kind in (asyncpg.PostgresError, *UNREACHABLE):
        app.add_exception_handler(kind, _database)
    app.add_exception_handler(Exception, _internal)
