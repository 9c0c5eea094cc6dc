"""Error responses that only the console has: of the client library and of Kafka."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from bailiff.client.errors import ClientError, ExitCode
from bailiff_bus.port import BusUnavailable
from bailiff_service import problems
from bailiff_service.logs import logger
from bailiff_service.problems import invalid_parameters, problem, unavailable

STATUSES = {ExitCode.NOT_FOUND: 404, ExitCode.USAGE: 400, ExitCode.UNREACHABLE: 503, ExitCode.UNREADABLE: 409}


def _client_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, ClientError)
    return problem(STATUSES.get(error.exit_code, 500), error.text + (f" ({error.advice})" if error.advice else ""))


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid_parameters(error.errors())


def _kafka(_: Request, error: Exception) -> Response:
    logger().warning("Kafka is unavailable", why=str(error))
    return unavailable("Kafka does not answer; it is unknown whether the request was published").response()


def register(app: FastAPI) -> None:
    """Register the exception handlers."""
    problems.register(app)
    app.add_exception_handler(ClientError, _client_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(BusUnavailable, _kafka)
