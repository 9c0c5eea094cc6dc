"""Errors as `application/problem+json` (RFC 9457): what was wrong, where, and what is allowed."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bailiff.problem import ExitCode, Problem
from bailiff_bus.logs import logger
from bailiff_bus.port import BusUnavailable

from .answers import Answer

TITLES = {
    400: "something in the request does not fit", 401: "sign in first", 403: "you may not do that", 404: "there is no such thing",
    405: "not in this way", 408: "the request took too long", 409: "not as things are", 413: "too large", 415: "JSON only",
    421: "this console has another address", 429: "too many at a time", 500: "an error in this program",
    502: "what stands behind this did not answer as it should", 503: "not now", 504: "no answer in time",
}  # fmt: skip
STATUSES = {ExitCode.NOT_FOUND: 404, ExitCode.USAGE: 400, ExitCode.UNREACHABLE: 503, ExitCode.UNREADABLE: 409}
RETRY_AFTER = "2"


class Fault(TypedDict):
    """One thing that does not fit. where: a parameter or a field; line, field: in a document that was sent, from 1."""

    where: str
    text: str
    field: NotRequired[str]
    line: NotRequired[int]
    found: NotRequired[str]
    allowed: NotRequired[str]


class Refused(Exception):
    """The request is answered with a problem."""

    def __init__(self, status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.faults, self.headers = status, detail, faults, headers

    def answer(self) -> Response:
        """As it goes out."""
        return problem(self.status, self.detail, self.faults, self.headers)


def missing(detail: str) -> Refused:
    """There is no such thing."""
    return Refused(404, detail)


def busy(detail: str) -> Refused:
    """Not now; to be tried again."""
    return Refused(503, detail, headers={"retry-after": RETRY_AFTER})


def problem(
    status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None, title: str | None = None
) -> Response:
    """The answer."""
    body = {"title": title or TITLES.get(status, "refused"), "status": status, "detail": detail}
    return Answer(
        body | ({"faults": list(faults)} if faults else {}), status_code=status,
        headers={"cache-control": "no-store", **(headers or {})}, media_type="application/problem+json",
    )  # fmt: skip


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.answer()


def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem(STATUSES.get(error.code, 500), error.text + (f" ({error.advice})" if error.advice else ""))


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults: list[Fault] = []
    for each in error.errors():
        place: Any = each["loc"]
        where = ".".join(str(part) for part in place[1:]) or str(place[0])
        found = "nothing" if each["type"] == "missing" else str(each.get("input"))[:100]
        faults.append({"where": where, "found": found, "text": f"{where}: found {found}; {each['msg']}"})
    return problem(400, "; ".join(fault["text"] for fault in faults), faults)


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address does not take that method"}
    return problem(error.status_code, said.get(error.status_code, str(error.detail)), headers=error.headers)


def _kafka(_: Request, error: Exception) -> Response:
    logger().warning("Kafka is not there", why=str(error))
    return busy("Kafka does not answer; whether what was asked for has reached it is not known").answer()


def _ours(_: Request, error: Exception) -> Response:
    said = "".join(traceback.format_exception(error))
    logger().error(f"an error of the console: {type(error).__name__}: {error}", traceback=said)
    return problem(500, "please report it; the log of the console has more")


def register(app: FastAPI) -> None:
    """All of them."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(BusUnavailable, _kafka)
    app.add_exception_handler(Exception, _ours)
