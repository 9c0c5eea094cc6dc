"""Errors as `application/problem+json` (RFC 9457): which parameter, what was found, what is allowed."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bailiff_auditor.database import AWAY
from bailiff_bus.logs import logger

from .answers import Answer

TITLES = {
    400: "a parameter does not fit", 401: "a token is needed", 404: "there is no such thing", 405: "this interface only reads",
    500: "an error in this program", 503: "not now",
}  # fmt: skip
RETRY_AFTER = "2"
REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


class Fault(BaseModel):
    """One parameter that does not fit."""

    parameter: str = Field(description="Its name.", examples=["limit"])
    found: str = Field(description="What was given, cut at 100 characters.", examples=["100000"])
    allowed: str = Field(description="What would be right.", examples=["Input should be less than or equal to 1000"])


class ProblemDetails(BaseModel):
    """What went wrong."""

    title: str = Field(examples=["a parameter does not fit"])
    status: int = Field(examples=[400])
    detail: str = Field(
        description="In a sentence.", examples=["limit: found 100000; Input should be less than or equal to 1000"]
    )
    errors: list[Fault] = Field(default=[], description="One for each parameter that does not fit.")


class Bad(Exception):
    """These parameters do not fit."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults


class Missing(Exception):
    """There is no such thing. The text says what."""


class Busy(Exception):
    """Not now. The text says why."""


class NotModified(Exception):
    """The caller has this answer already."""

    def __init__(self, etag: str) -> None:
        self.etag = etag


def bad(parameter: str, found: object, allowed: str) -> Bad:
    """One parameter that does not fit."""
    return Bad(Fault(parameter=parameter, found=shown(found), allowed=allowed))


def shown(found: object) -> str:
    """What was given, short enough to be told."""
    return str(found)[:100]


def problem(status: int, detail: str, errors: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> Response:
    """The answer."""
    body = {"title": TITLES.get(status, "refused"), "status": status, "detail": detail}
    return Answer(
        body | ({"errors": [fault.model_dump() for fault in errors]} if errors else {}),
        status_code=status, headers=dict(headers or {}), media_type="application/problem+json",
    )  # fmt: skip


def _faults(faults: Sequence[Fault]) -> Response:
    said = "; ".join(f"{fault.parameter}: found {fault.found or 'nothing'}; allowed: {fault.allowed}" for fault in faults)
    return problem(400, said, faults)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = []
    for each in error.errors():
        place: Any = each["loc"]
        given = each.get("input")
        found = "nothing" if each["type"] == "missing" else shown(given)
        faults.append(
            Fault(
                parameter=str(place[1] if len(place) > 1 else place[0]),
                found=found,
                allowed=each["msg"].removeprefix("Value error, "),
            )
        )
    return _faults(faults)


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return problem(405, "GET and HEAD only", headers={"allow": "GET, HEAD"})
    return problem(error.status_code, "there is nothing at this address; /v1/openapi.json says what there is")


def _database(_: Request, error: Exception) -> Response:
    if isinstance(error, asyncpg.QueryCanceledError):
        return problem(503, "the question takes too long: narrow it down with filters, or from and to")
    if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError | asyncpg.InsufficientPrivilegeError):
        return problem(503, f"the archive cannot be read yet: {error}", headers={"retry-after": RETRY_AFTER})
    if isinstance(error, asyncpg.DataError):
        return problem(400, f"PostgreSQL cannot look for that: {error}")
    if isinstance(error, (*AWAY, *REFUSED)):
        return problem(503, "PostgreSQL is not there", headers={"retry-after": RETRY_AFTER})
    return _ours(_, error)


def _ours(_: Request, error: Exception) -> Response:
    said = "".join(traceback.format_exception(error))
    logger().error(f"an error of the query interface: {type(error).__name__}: {error}", traceback=said)
    return problem(500, "please report it; the log of this service has more")


def register(app: FastAPI) -> None:
    """All of them."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Bad, lambda _, error: _faults(error.faults))
    app.add_exception_handler(Missing, lambda _, error: problem(404, str(error)))
    app.add_exception_handler(Busy, lambda _, error: problem(503, str(error), headers={"retry-after": RETRY_AFTER}))
    app.add_exception_handler(
        NotModified,
        lambda _, error: Response(status_code=304, headers={"etag": error.etag}),
    )
    for kind in (asyncpg.PostgresError, *AWAY):
        app.add_exception_handler(kind, _database)
    app.add_exception_handler(Exception, _ours)
