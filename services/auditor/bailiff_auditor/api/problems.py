"""Error responses that only the HTTP API has: of PostgreSQL, and 304."""

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from bailiff_auditor.database import UNREACHABLE
from bailiff_service import problems
from bailiff_service.problems import ApiError, internal_error, invalid, invalid_parameters, invalid_value, problem, unavailable

REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


class NotModified(Exception):
    """304: the client has this response already."""

    def __init__(self, etag: str) -> None:
        self.etag = etag


def bad(parameter: str, found: object, allowed: str) -> ApiError:
    """400: one invalid parameter."""
    return invalid(invalid_value(parameter, found, allowed))


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid_parameters(error.errors())


def _database(_: Request, error: Exception) -> Response:
    if isinstance(error, asyncpg.QueryCanceledError):
        return problem(503, "the query timed out: narrow it with filters, or with from and to")
    if isinstance(error, asyncpg.UndefinedTableError | asyncpg.UndefinedColumnError | asyncpg.InsufficientPrivilegeError):
        return unavailable(f"the archive cannot be read yet: {error}").response()
    if isinstance(error, asyncpg.DataError):
        return problem(400, f"PostgreSQL rejects a value: {error}")
    if isinstance(error, (*UNREACHABLE, *REFUSED)):
        return unavailable("PostgreSQL is unavailable").response()
    return internal_error(_, error)


def register(app: FastAPI) -> None:
    """Register the exception handlers."""
    problems.register(app, "unknown path; see /v1/openapi.json")
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(NotModified, lambda _, error: Response(status_code=304, headers={"etag": error.etag}))
    for kind in (asyncpg.PostgresError, *UNREACHABLE):
        app.add_exception_handler(kind, _database)
