"""Errors as `application/problem+json` (RFC 9457): what is wrong, where, and what is allowed."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus.port import BusUnavailable
from bailiff_service.logs import logger

from .responses import JsonResponse

TITLES = {
    400: "invalid request", 401: "sign-in required", 403: "not allowed", 404: "not found",
    405: "method not allowed", 408: "request timeout", 409: "conflict with the current state", 413: "request too large",
    415: "JSON only", 421: "wrong address", 429: "too many requests", 500: "internal error",
    502: "invalid response of an upstream service", 503: "temporarily unavailable", 504: "upstream timeout",
}  # fmt: skip
STATUSES = {ExitCode.NOT_FOUND: 404, ExitCode.USAGE: 400, ExitCode.UNREACHABLE: 503, ExitCode.UNREADABLE: 409}
RETRY_AFTER = "2"


class Fault(TypedDict):
    """One invalid value. where: the parameter or field; line (from 1), field: the position in a submitted document."""

    where: str
    text: str
    field: NotRequired[str]
    line: NotRequired[int]
    found: NotRequired[str]
    allowed: NotRequired[str]


class ApiError(Exception):
    """The request is answered with this problem document."""

    def __init__(self, status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.faults, self.headers = status, detail, faults, headers

    def response(self) -> Response:
        """The HTTP response."""
        return problem(self.status, self.detail, self.faults, self.headers)


def missing(detail: str) -> ApiError:
    """404."""
    return ApiError(404, detail)


def busy(detail: str) -> ApiError:
    """503 with `Retry-After`."""
    return ApiError(503, detail, headers={"retry-after": RETRY_AFTER})


def problem(
    status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None, title: str | None = None
) -> Response:
    """The response."""
    body = {"title": title or TITLES.get(status, "request rejected"), "status": status, "detail": detail}
    return JsonResponse(
        body | ({"faults": list(faults)} if faults else {}), status_code=status,
        headers={"cache-control": "no-store", **(headers or {})}, media_type="application/problem+json",
    )  # fmt: skip


def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ClientError)
    return problem(STATUSES.get(error.code, 500), error.text + (f" ({error.advice})" if error.advice else ""))


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults: list[Fault] = []
    for each in error.errors():
        location: Any = each["loc"]
        where = ".".join(str(part) for part in location[1:]) or str(location[0])
        found = "nothing" if each["type"] == "missing" else str(each.get("input"))[:100]
        faults.append({"where": where, "found": found, "text": f"{where}: found {found}; {each['msg']}"})
    return problem(400, "; ".join(fault["text"] for fault in faults), faults)


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    details = {404: "not found: unknown path", 405: "this path does not support that method"}
    return problem(error.status_code, details.get(error.status_code, str(error.detail)), headers=error.headers)


def _kafka(_: Request, error: Exception) -> Response:
    logger().warning("Kafka is unavailable", why=str(error))
    return busy("Kafka does not answer; it is unknown whether the request was published").response()


def _internal(_: Request, error: Exception) -> Response:
    trace = "".join(traceback.format_exception(error))
    logger().error(f"internal error: {type(error).__name__}: {error}", traceback=trace)
    return problem(500, "internal error; details are in the console's log; please report it")


def register(app: FastAPI) -> None:
    """Register the exception handlers."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ClientError, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BusUnavailable, _kafka)
    app.add_exception_handler(Exception, _internal)
