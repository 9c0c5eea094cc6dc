"""Errors of HTTP interfaces as `application/problem+json` (RFC 9457), with one entry per invalid value."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from .json_response import JsonResponse
from .logs import logger

TITLES = {
    400: "invalid request",
    401: "authentication required",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    408: "request timeout",
    409: "not possible now",
    413: "request too large",
    415: "JSON only",
    421: "wrong address",
    429: "too many requests",
    500: "internal error",
    502: "invalid response of an upstream service",
    503: "temporarily unavailable",
    504: "upstream timeout",
}
RETRY_AFTER = "2"
MAX_SHOWN = 100
MAX_IN_DETAIL = 5


class ErrorDetail(BaseModel):
    """One invalid value."""

    location: str = Field(
        description="The parameter or field, as in `limit` or `groups.0.gpus`; empty: the whole request.", examples=["limit"]
    )
    detail: str = Field(
        description="What is wrong with it.", examples=["found 100000; allowed: Input should be less than or equal to 1000"]
    )
    line: int | None = Field(default=None, description="Its line in the submitted document, from 1.")
    found: str | None = Field(default=None, description="The value given, truncated to 100 characters.", examples=["100000"])
    allowed: str | None = Field(
        default=None, description="The allowed values.", examples=["Input should be less than or equal to 1000"]
    )

    def to_data(self) -> dict[str, Any]:
        """As JSON, without absent fields."""
        return self.model_dump(exclude_none=True)


class ProblemDetails(BaseModel):
    """A problem document."""

    title: str = Field(examples=["invalid request"])
    status: int = Field(examples=[400])
    detail: str = Field(
        description="In a sentence.", examples=["limit: found 100000; allowed: Input should be less than or equal to 1000"]
    )
    errors: list[ErrorDetail] = Field(default=[], description="One per invalid value.")


class ApiError(Exception):
    """The request is answered with this problem document."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[ErrorDetail] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.errors, self.headers = status, detail, errors, headers

    def response(self) -> Response:
        """The HTTP response."""
        return problem(self.status, self.detail, self.errors, self.headers)


def invalid(*errors: ErrorDetail) -> ApiError:
    """400 with these errors."""
    return ApiError(400, "; ".join(_sentence(each) for each in errors[:MAX_IN_DETAIL]), errors)


def _sentence(error: ErrorDetail) -> str:
    line = f"line {error.line}" if error.line is not None else ""
    return ": ".join(part for part in (line, error.location, error.detail) if part)


def invalid_value(location: str, found: object, allowed: str) -> ErrorDetail:
    shown = str(found)[:MAX_SHOWN]
    return ErrorDetail(
        location=location[:MAX_SHOWN], detail=f"found {shown or 'nothing'}; allowed: {allowed}", found=shown, allowed=allowed
    )


def not_found(detail: str) -> ApiError:
    """404. The text names what does not exist."""
    return ApiError(404, detail)


def unavailable(detail: str) -> ApiError:
    """503 with `Retry-After`. The text gives the reason."""
    return ApiError(503, detail, headers={"retry-after": RETRY_AFTER})


def problem(
    status: int,
    detail: str,
    errors: Sequence[ErrorDetail] = (),
    headers: Mapping[str, str] | None = None,
    title: str | None = None,
) -> Response:
    body = {"title": title or TITLES.get(status, "request rejected"), "status": status, "detail": detail}
    return JsonResponse(
        body | ({"errors": [each.to_data() for each in errors]} if errors else {}),
        status_code=status,
        headers={"cache-control": "no-store", **(headers or {})},
        media_type="application/problem+json",
    )


def invalid_parameters(errors: Sequence[Mapping[str, Any]]) -> Response:
    """The response for errors of pydantic in parameters, located as in `("query", "state", 0)`."""
    found = []
    for each in errors:
        place = each["loc"]
        location = str(place[1] if len(place) > 1 else place[0])
        given = "" if each["type"] == "missing" else each.get("input")
        found.append(invalid_value(location, given, each["msg"].removeprefix("Value error, ")))
    return invalid(*found).response()


def register(app: Starlette, unknown_path: str = "unknown path") -> None:
    """Register the exception handlers. unknown_path: detail of a 404 for a path without a route."""

    def of_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        details = {404: unknown_path, 405: "this path does not support that method"}
        return problem(error.status_code, details.get(error.status_code, str(error.detail)), headers=error.headers)

    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, internal_error)


def _api_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


def internal_error(_: Request, error: Exception) -> Response:
    """500. The traceback is logged."""
    trace = "".join(traceback.format_exception(error))
    logger().error(f"internal error: {type(error).__name__}: {error}", traceback=trace)
    return problem(500, "internal error; details are in the service's log; please report it")
