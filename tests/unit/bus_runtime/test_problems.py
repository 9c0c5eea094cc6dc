"""One form of error responses: RFC 9457, with an entry per invalid value."""

import asyncio
import json
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bailiff_service.problems import ErrorDetail, invalid, invalid_parameters, invalid_value, not_found, register, unavailable

RAISED = {
    "/missing": not_found("no job 'x'"),
    "/busy": unavailable("PostgreSQL is unavailable"),
    "/invalid": invalid(
        invalid_value("limit", "x" * 200, "1 to 1000"),
        ErrorDetail(location="gpus", detail="expected a number", line=3),
        ErrorDetail(location="", detail="no groups"),
    ),
    "/fault": ZeroDivisionError("secret"),
}


def _raise(request: Request) -> Response:
    raise RAISED[request.url.path]


def answer(path: str, method: str = "GET") -> tuple[dict[str, Any], Any]:
    app = Starlette(routes=[Route(path, _raise) for path in RAISED])
    register(app, "unknown path; see the index")

    async def requested() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path)

    response = asyncio.run(requested())
    assert response.headers["content-type"] == "application/problem+json"
    return response.json(), response.headers


def test_each_invalid_value_has_its_location_line_and_detail() -> None:
    body, _ = answer("/invalid")
    assert (body["title"], body["status"]) == ("invalid request", 400)
    assert body["errors"] == [
        {"location": "limit", "detail": f"found {'x' * 100}; allowed: 1 to 1000", "found": "x" * 100, "allowed": "1 to 1000"},
        {"location": "gpus", "detail": "expected a number", "line": 3},
        {"location": "", "detail": "no groups"},
    ]
    assert body["detail"].endswith("allowed: 1 to 1000; line 3: gpus: expected a number; no groups")


def test_a_problem_without_invalid_values_has_no_errors() -> None:
    assert answer("/missing")[0] == {"title": "not found", "status": 404, "detail": "no job 'x'"}
    body, headers = answer("/busy")
    assert (body["status"], headers["retry-after"], headers["cache-control"]) == (503, "2", "no-store")


def test_unknown_paths_and_methods_and_internal_errors() -> None:
    assert answer("/nowhere")[0]["detail"] == "unknown path; see the index"
    body, headers = answer("/missing", "POST")
    assert (body["status"], set(headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert "secret" not in json.dumps(answer("/fault")[0])


def test_a_parameter_is_named_without_the_position_in_its_list() -> None:
    found = {"loc": ("query", "state", 0), "type": "literal_error", "msg": "Input should be 'pending'", "input": "tired"}
    (error,) = json.loads(invalid_parameters([found]).body)["errors"]
    assert (error["location"], error["found"], error["allowed"]) == ("state", "tired", "Input should be 'pending'")
    missing = {"loc": ("query", "seq"), "type": "missing", "msg": "Field required", "input": None}
    (error,) = json.loads(invalid_parameters([missing]).body)["errors"]
    assert error["detail"] == "found nothing; allowed: Field required"
