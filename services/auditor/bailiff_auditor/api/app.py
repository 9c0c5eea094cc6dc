"""The application: routes, errors, and its description."""

from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.gzip import GZipMiddleware

from bailiff_bus.metrics import Metrics

from . import borrowing, events, evictions, gpus, jobs, pools, problems, projects, rawlog, records, timelines
from .archive import Archive
from .door import Door
from .parameters import PREFIX, only_known_parameters

VERSION = "1"
GZIP_FROM = 4096
TITLE = "Bailiff: the archive, to be asked"
ABOUT = """Read-only questions to the archive of the audit log. Nothing is told that is not archived.

* Times are UTC. Lists come in pages: give `next` as `cursor`, with the same other parameters.
* An answer has an `ETag`; with `If-None-Match` it is sent only if something has changed.
* Errors are `application/problem+json` and name the parameter, what was found and what is allowed.
* `/v1/events` is the live stream: it goes on behind `Last-Event-ID`, the `id` of an event.
"""
TAGS = {
    "pools": "Pools, how far they are archived, and their nodes.", "jobs": "Jobs, their attempts, and what waits.",
    "evictions": "Who had to leave, for whom, why, and what it cost.", "gpus": "Who held which GPU when.",
    "projects": "Use against quota and fair share.", "timelines": "What happened to a job, on a node, in a project.",
    "records": "The log itself: records, bytes, seals.", "live": "Records as they are archived.",
}  # fmt: skip


def application(archive: Archive | None, streams: events.Streams | None, metrics: Metrics, token: str | None = None) -> FastAPI:
    """archive, streams: none where only the description is wanted."""
    at = f"{PREFIX}/openapi.json"
    app = FastAPI(
        title=TITLE, version=VERSION, description=ABOUT, openapi_url=at, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.archive, app.state.streams = archive, streams
    faults: dict[int | str, dict[str, Any]] = {
        code: {"model": problems.ProblemDetails, "description": problems.TITLES[code]} for code in (400, 404, 503)
    }
    root = APIRouter(prefix=PREFIX, dependencies=[Depends(only_known_parameters)], responses=faults)
    for room in (pools, gpus, projects, borrowing, jobs, evictions, timelines, records, rawlog, events):
        root.include_router(room.router)
    app.include_router(root)
    problems.register(app)
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_FROM, compresslevel=3)
    app.add_middleware(Door, token=token, metrics=metrics)
    app.openapi = lambda: description(app)  # type: ignore[method-assign]
    return app


def description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document. Errors are problems, and never FastAPI's own."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        found["tags"] = [{"name": name, "description": text} for name, text in TAGS.items()]
        for path in found["paths"].values():
            for operation in path.values():
                answers = operation["responses"]
                answers.pop("422", None)
                for code, answer in answers.items():
                    if code in ("400", "404", "503"):
                        answer["content"] = {"application/problem+json": answer["content"]["application/json"]}
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        app.openapi_schema = found
    return app.openapi_schema
