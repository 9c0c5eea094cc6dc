"""The way from the console to a job's port."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import RedirectResponse, Response

from bailiff_console.actions.routes import WithRequestService
from bailiff_console.auth.routes import SEE_OTHER
from bailiff_console.auth.sessions import Session
from bailiff_service.problems import ApiError, not_found

from .targets import Target
from .visitors import Visitors

router = APIRouter(include_in_schema=False)


def visitors_of(request: Request) -> Visitors:
    """Raises `ApiError` where the console does not proxy ports."""
    found: Visitors | None = request.app.state.visitors
    if found is None:
        raise not_found("this console does not show ports of jobs: its operator sets BAILIFF_CONSOLE_JOBS_PORT")
    return found


@router.get("/ports/{pool}/{job}/{task}/{port}")
async def enter(
    request: Request,
    visitors: Annotated[Visitors, Depends(visitors_of)],
    request_service: WithRequestService,
    pool: str,
    job: str,
    task: Annotated[int, Path(ge=0)],
    port: Annotated[int, Path(ge=1, le=65_535)],
) -> Response:
    """Send the browser to the port's own address, with a link that works once."""
    session = getattr(request.state, "session", None)
    if not isinstance(session, Session):
        return RedirectResponse(f"/auth/sign-in?to={quote(request.url.path)}", SEE_OTHER)
    state = request_service.allow_job(pool, session.principal, "attach", job)
    found = state.jobs.get(job)
    if found is None:
        raise not_found(f"no job {job!r} in {pool}")
    if port not in found.demand.ports:
        known = ", ".join(map(str, found.demand.ports)) or "none"
        raise ApiError(404, f"{job} does not declare port {port}; it declares {known}")
    answer = RedirectResponse(visitors.link(session, Target(pool, job, found.seq, task, port)), SEE_OTHER)
    answer.headers["cache-control"] = "no-store"
    answer.headers["referrer-policy"] = "no-referrer"
    return answer
