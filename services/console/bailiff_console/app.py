"""The application: every router and middleware is put in here, and nowhere else."""

from collections.abc import Callable, Mapping

from fastapi import FastAPI
from starlette.requests import Request

from . import archive as archived
from . import problems, web
from .answers import Answer
from .archive import ArchiveProxy
from .live import stream
from .live.pools import Pools
from .past import at, decision, explain

Readiness = Callable[[], Mapping[str, str | None]]


def application(pools: Pools, archive: ArchiveProxy, readiness: Readiness, *, most_pages: int = 1000) -> FastAPI:
    """pools, archive: what the routers ask, as `app.state.pools` and `app.state.archive`."""
    app = FastAPI(title="Bailiff's console", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.pools, app.state.archive, app.state.most_pages = pools, archive, most_pages
    app.state.boards = at.Boards()
    problems.register(app)

    @app.get("/healthz")
    async def healthz() -> Answer:
        return Answer({"alive": True})

    @app.get("/readyz")
    async def readyz(_: Request) -> Answer:
        found = dict(readiness())
        return Answer(found, status_code=503 if any(found.values()) else 200)

    for room in (stream, at, explain, decision, archived):
        app.include_router(room.router)
    app.include_router(web.router)  # last: it takes every address that is left
    return app
