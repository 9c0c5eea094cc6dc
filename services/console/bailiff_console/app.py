"""The application: every router and middleware is put in here, and nowhere else."""

from collections.abc import Callable, Mapping

from fastapi import FastAPI
from starlette.requests import Request

from . import archive as archived
from . import logs, problems, web
from .acting import routes as acting
from .acting.desk import Desk
from .acting.whatifs import WhatIfs
from .answers import Answer
from .archive import ArchiveProxy
from .door import routes as door
from .door.gate import Gate
from .door.middleware import Door
from .live import stream
from .live.pools import Pools
from .past import at, decision, explain

Readiness = Callable[[], Mapping[str, str | None]]


def application(
    pools: Pools,
    archive: ArchiveProxy,
    readiness: Readiness,
    gate: Gate,
    desk: Desk,
    what_ifs: WhatIfs,
    *,
    most_pages: int = 1000,
) -> FastAPI:
    """What the routers ask is in `app.state`, each under its name here."""
    app = FastAPI(title="Bailiff's console", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.pools, app.state.archive, app.state.most_pages = pools, archive, most_pages
    app.state.boards, app.state.reading_logs = at.Boards(), set()
    app.state.gate, app.state.desk, app.state.what_ifs = gate, desk, what_ifs
    problems.register(app)

    @app.get("/healthz")
    async def healthz() -> Answer:
        return Answer({"alive": True})

    @app.get("/readyz")
    async def readyz(_: Request) -> Answer:
        found = dict(readiness())
        return Answer(found, status_code=503 if any(found.values()) else 200)

    for room in (door, acting, stream, at, explain, decision, logs, archived):
        app.include_router(room.router)
    app.include_router(web.router)  # last: it takes every address that is left
    app.add_middleware(Door, gate=gate)
    return app
