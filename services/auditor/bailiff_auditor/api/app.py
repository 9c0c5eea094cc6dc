"""The query API's application: routes, error handlers, OpenAPI document."""

from collections.abc import Collection
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.gzip import GZipMiddleware

from bailiff_service.metrics import Metrics
from bailiff_service.problems import TITLES, ProblemDetails

from . import (
    accounting,
    events,
    evictions,
    gpus,
    jobs,
    overview,
    pools,
    problems,
    projects,
    quota_series,
    raw_log,
    records,
    timelines,
)
from .archive import Archive
from .middleware import ApiMiddleware
from .parameters import PREFIX, only_known_parameters

VERSION = "1"
GZIP_FROM = 4096
TITLE = "Bailiff query API"
ABOUT = """Read-only queries of the archived audit log. Only archived records are returned.

* Times are UTC. Lists are paged: pass `next` as `cursor`, with otherwise the same parameters.
* Responses have an `ETag`; with `If-None-Match`, an unchanged response is 304.
* Errors are `application/problem+json` and name the parameter, the value found and the values allowed.
* `/v1/events` is the live stream; it resumes after `Last-Event-ID`, the `id` of an event.
"""
TAGS = {
    "pools": "Pools, their archive state, and their nodes.", "jobs": "Jobs, attempts, and the queue.",
    "evictions": "Evictions: victim, preemptor, cause and cost.", "gpus": "GPU allocations over time.",
    "accounting": "GPU-hours used, borrowed, lost and waited for.",
    "projects": "Usage, quota and fair share.", "timelines": "Records about a job, a node or a project.",
    "records": "The log: records, bytes, seals.", "live": "Live stream of archived records.",
}  # fmt: skip


def application(
    archive: Archive | None, streams: events.Streams | None, metrics: Metrics, token: str, hosts: Collection[str] = ()
) -> FastAPI:
    """archive, streams: None to generate the OpenAPI document only. token: required; hosts: the server's names."""
    at = f"{PREFIX}/openapi.json"
    app = FastAPI(
        title=TITLE, version=VERSION, description=ABOUT, openapi_url=at, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.archive, app.state.streams = archive, streams
    errors: dict[int | str, dict[str, Any]] = {
        code: {"model": ProblemDetails, "description": TITLES[code]} for code in (400, 404, 503)
    }
    root = APIRouter(prefix=PREFIX, dependencies=[Depends(only_known_parameters)], responses=errors)
    for module in (
        pools,
        gpus,
        projects,
        quota_series,
        accounting,
        jobs,
        overview,
        evictions,
        timelines,
        records,
        raw_log,
        events,
    ):
        root.include_router(module.router)
    app.include_router(root)
    problems.register(app)
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM, compresslevel=3)
    app.add_middleware(ApiMiddleware, token=token, hosts=hosts, metrics=metrics)
    app.openapi = lambda: description(app)  # type: ignore[method-assign]
    return app


def description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with problem documents instead of FastAPI's own errors."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        found["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
        for path in found["paths"].values():
            for operation in path.values():
                responses = operation["responses"]
                responses.pop("422", None)
                for code, response in responses.items():
                    if code in ("400", "404", "503"):
                        response["content"] = {"application/problem+json": response["content"]["application/json"]}
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        app.openapi_schema = found
    return app.openapi_schema
