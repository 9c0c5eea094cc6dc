"""What a request ends with that goes wrong in a route: always a problem, and never a traceback."""

import traceback
from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bailiff.problem import ExitCode, Problem
from bailiff_bus.logs import logger
from bailiff_bus.port import BusUnavailable

from .problems import Refused

STATUS = {
    ExitCode.USAGE: 422, ExitCode.FOUND_WRONG: 422, ExitCode.REJECTED: 409, ExitCode.UNREACHABLE: 503, ExitCode.NOT_FOUND: 404,
    ExitCode.NO_ANSWER: 504, ExitCode.UNREADABLE: 503,
}  # fmt: skip
RETRY_AFTER = {"retry-after": "2"}


def _invalid(error: RequestValidationError) -> Refused:
    faults = [
        {"where": ".".join(str(part) for part in each["loc"]), "text": each["msg"], "found": str(each.get("input"))[:100]}
        for each in error.errors()[:20]
    ]
    return Refused(422, "; ".join(f"{fault['where']}: {fault['text']}" for fault in faults), faults=faults)


def _http(error: HTTPException) -> Refused:
    details = {404: "there is nothing at this address", 405: "this address does not take that method"}
    return Refused(error.status_code, details.get(error.status_code, str(error.detail)), headers=error.headers or {})


def _problem(error: Problem) -> Refused:
    advice = f" ({error.advice})" if error.advice else ""
    return Refused(STATUS.get(error.code, 500), f"{error.text}{advice}")


def _kafka(_: BusUnavailable) -> Refused:
    return Refused(503, "Kafka does not answer: nothing was asked for, as far as is known", headers=RETRY_AFTER)


def _ours(error: Exception) -> Refused:
    said = "".join(traceback.format_exception(error))
    logger().error(f"an error of the console: {type(error).__name__}: {error}", traceback=said)
    return Refused(500, "please report it; the log of the console has more")


def _same(error: Refused) -> Refused:
    return error


KINDS: dict[type[Exception], Callable[..., Refused]] = {
    Refused: _same, RequestValidationError: _invalid, HTTPException: _http, Problem: _problem, BusUnavailable: _kafka,
    Exception: _ours,
}  # fmt: skip


def register(app: FastAPI) -> None:
    """All of them."""
    for kind, told in KINDS.items():
        app.add_exception_handler(kind, _answering(told))


def _answering(told: Callable[..., Refused]) -> Callable[[Request, Exception], Response]:
    return lambda _, error: told(error).answer()
