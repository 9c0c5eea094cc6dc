"""The HTTP API's application: routes, error handlers, OpenAPI document."""

from collections.abc import Collection

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.gzip import GZipMiddleware

from bailiff_service.metrics import Metrics
from bailiff_service.openapi import described, problem_responses

from . import (
    accounting,
    events,
    evictions,
    gpus,
    jobs,
    month,
    overview,
    pools,
    problems,
    projects,
    quota_series,
    raw_log,
    records,
    timelines,
    verification,
)
from .archive import Archive
from .middleware import ApiMiddleware
from .parameters import PREFIX, only_known_parameters

VERSION = "1"
GZIP_FROM = 4096
TITLE = "Bailiff HTTP API"
ABOUT = """Read-only queries of the archived audit log. Only archived records are returned.

* Times are UTC. Lists are paged: pass `next` as `cursor`, with otherwise the same parameters.
* Responses have an `ETag`; with `If-None-Match`, an unchanged response is 304.
* Errors are `application/problem+json` and name the parameter, the value found and the values allowed.
* `/v1/events` is the live stream; it resumes after `Last-Event-ID`, the `id` of an event.
"""
TAGS = {
    "pools": "Pools, their archive state, and their nodes.",
    "jobs": "Jobs, attempts, and the queue.",
    "evictions": "Evictions: victim, preemptor, cause and cost.",
    "gpus": "GPU allocations over time.",
    "accounting": "GPU-hours used, borrowed, lost and waited for.",
    "projects": "Usage, quota and fair share.",
    "timelines": "Records about a job, a node or a project.",
    "records": "The log: records, bytes, seals.",
    "live": "Live stream of archived records.",
}


def application(
    archive: Archive | None, streams: events.Streams | None, metrics: Metrics, token: str, hosts: Collection[str] = ()
) -> FastAPI:
    """archive, streams: None to generate the OpenAPI document only. token: required; hosts: the server's names."""
    at = f"{PREFIX}/openapi.json"
    app = FastAPI(
        title=TITLE, version=VERSION, description=ABOUT, openapi_url=at, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.archive, app.state.streams = archive, streams
    root = APIRouter(prefix=PREFIX, dependencies=[Depends(only_known_parameters)], responses=problem_responses(400, 404, 503))
    for module in (
        pools,
        gpus,
        projects,
        quota_series,
        accounting,
        month,
        jobs,
        overview,
        evictions,
        timelines,
        records,
        raw_log,
        verification,
        events,
    ):
        root.include_router(module.router)
    app.include_router(root)
    problems.register(app)
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM, compresslevel=3)
    app.add_middleware(ApiMiddleware, token=token, hosts=hosts, metrics=metrics)
    app.openapi = lambda: described(app, TAGS)  # type: ignore[method-assign]
    return app
