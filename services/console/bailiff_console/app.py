"""The ASGI application: registers every router and middleware."""

import asyncio
from collections.abc import Callable, Mapping

from fastapi import FastAPI
from starlette.requests import Request

from bailiff_console.actions.request_service import RequestService
from bailiff_console.actions.what_ifs import WhatIfs
from bailiff_console.auth.auth_context import AuthContext
from bailiff_console.auth.middleware import AuthMiddleware
from bailiff_console.live.pools import Pools
from bailiff_service.json_response import JsonResponse
from bailiff_service.openapi import described, problem_responses

from . import archive as archive_proxy
from . import logs, problems, rejections, shells, web
from .actions import routes as action_routes
from .archive import ArchiveProxy
from .auth import routes as auth_routes
from .history import decision, explain, point_in_time, receipts
from .job_ports import routes as job_ports
from .job_ports.visitors import Visitors
from .live import job_list, measurements, stream
from .record_text import RecordText

ABOUT = """What the console's pages read and do, for a signed-in browser: not a stable interface. Programs use the HTTP API."""
TAGS = {
    "session": "Who is signed in.",
    "live": "Pools as they are now, and as they change.",
    "history": "Pools as they were, and explanations.",
    "actions": "Previews, requests and what-ifs.",
    "archive": "The HTTP API (docs/schemas/api.json), with the text of each record.",
}
Readiness = Callable[[], Mapping[str, str | None]]


def application(
    pools: Pools,
    archive: ArchiveProxy,
    readiness: Readiness,
    auth: AuthContext,
    request_service: RequestService,
    what_ifs: WhatIfs,
    visitors: Visitors | None = None,
    *,
    max_pages: int = 1000,
    witness_keys: frozenset[str] = frozenset(),
) -> FastAPI:
    """The routers read these objects from `app.state`, under the same names."""
    app = FastAPI(
        title="Bailiff's console",
        version="1",
        description=ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.pools, app.state.archive, app.state.max_pages = pools, archive, max_pages
    app.state.snapshot_cache, app.state.reading_logs = point_in_time.SnapshotCache(), set()
    app.state.making_receipt, app.state.shells = asyncio.Lock(), shells.Shells()
    app.state.visitors, app.state.witness_keys = visitors, witness_keys
    app.state.auth, app.state.request_service, app.state.what_ifs = auth, request_service, what_ifs
    problems.register(app)

    app.openapi = lambda: described(app, TAGS, [RecordText])  # type: ignore[method-assign]

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> JsonResponse:
        return JsonResponse({"alive": True})

    @app.get("/readyz", include_in_schema=False)
    async def readyz(_: Request) -> JsonResponse:
        faults = dict(readiness())
        return JsonResponse(faults, status_code=503 if any(faults.values()) else 200)

    for module in (
        auth_routes,
        action_routes,
        job_ports,
        stream,
        job_list,
        measurements,
        point_in_time,
        explain,
        decision,
        receipts,
        logs,
        shells,
        rejections,
        archive_proxy,
    ):
        app.include_router(module.router, responses=problem_responses(400, 401, 403, 404, 503))
    app.include_router(web.router, include_in_schema=False)  # last: it matches every remaining path
    app.add_middleware(AuthMiddleware, auth=auth)
    return app
