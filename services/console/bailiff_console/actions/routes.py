"""HTTP routes of requests, previews, plans, policies and what-ifs."""

from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, Response
from typing_extensions import TypedDict

from bailiff.audit.log_positions import point
from bailiff.client.errors import ClientError
from bailiff_bus.port import BusUnavailable
from bailiff_console.auth.body import whole_body
from bailiff_console.auth.headers import OWN
from bailiff_console.auth.routes import SignedIn
from bailiff_core.views import BudgetView, ReservationView
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import ApiError, ErrorDetail, invalid, unavailable

from .preview_text import PreviewAnswer
from .request_parser import MAX_JOB, MAX_POLICY, fields_of, parse_request, text_in
from .request_service import ReadableSpec, RequestOutcome, RequestService
from .what_ifs import WhatIfs, WhatIfStatus
from .worker_tasks import JobPlan, PolicyPlan

router = APIRouter(tags=["actions"])
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MAX_POINT = 64

Body = Annotated[bytes, Depends(whole_body)]


def request_service_of(request: Request) -> RequestService:
    """The request service of the application."""
    request_service: RequestService = request.app.state.request_service
    return request_service


def what_ifs_of(request: Request) -> WhatIfs:
    """The what-ifs of the application."""
    found: WhatIfs = request.app.state.what_ifs
    return found


WithRequestService = Annotated[RequestService, Depends(request_service_of)]
WithWhatIfs = Annotated[WhatIfs, Depends(what_ifs_of)]


@router.post("/api/pools/{pool}/requests")
async def request(pool: str, principal: SignedIn, request_service: WithRequestService, body: Body) -> RequestOutcome:
    """Publish a request."""
    return await request_service.request(pool, principal, parse_request(body))


@router.post("/api/pools/{pool}/preview", response_model=PreviewAnswer)
async def preview(pool: str, principal: SignedIn, request_service: WithRequestService, body: Body) -> JsonResponse:
    """The effects of a request. Nothing is published."""
    return JsonResponse(await request_service.preview(pool, principal, parse_request(body)))


@router.get("/api/pools/{pool}/jobs/{job}/permissions", response_model=dict[str, str | None])
async def permissions(pool: str, job: str, principal: SignedIn, request_service: WithRequestService) -> JsonResponse:
    """What the user may not do to the job, and why."""
    return JsonResponse(request_service.permissions(pool, principal, job), headers={"cache-control": "no-store"})


@router.post("/api/pools/{pool}/jobs/{job}/spec")
async def spec(pool: str, job: str, principal: SignedIn, request_service: WithRequestService, _: Body) -> ReadableSpec:
    """The job's command and environment, for whoever may read them: a request, which is on record."""
    return await request_service.spec(pool, principal, job)


@router.get("/api/pools/{pool}/limits", response_model=list[str])
async def limits(
    pool: str,
    principal: SignedIn,
    request_service: WithRequestService,
    project: Annotated[str | None, Query(description="For a job of the user in it; omitted: for all.", max_length=63)] = None,
) -> JsonResponse:
    """The limits of open jobs and the rates that are near, and who was above a limit in the last hour."""
    try:
        found = await request_service.limits(pool, principal, project)
    except BusUnavailable as error:
        raise unavailable(str(error)) from None
    return JsonResponse(found, headers={"cache-control": "no-store"})


@router.get("/api/pools/{pool}/budgets", response_model=list[BudgetView])
async def budgets(pool: str, _: SignedIn, request_service: WithRequestService) -> JsonResponse:
    """The budgets of this month, until now."""
    return JsonResponse(request_service.budgets(pool), headers={"cache-control": "no-store"})


@router.get("/api/pools/{pool}/reservations", response_model=list[ReservationView])
async def reservations(pool: str, _: SignedIn, request_service: WithRequestService) -> JsonResponse:
    """GPUs that are reserved for projects, the soonest first."""
    return JsonResponse(request_service.reservations(pool), headers={"cache-control": "no-store"})


@router.post("/api/pools/{pool}/plan", response_model=JobPlan)
async def plan(pool: str, principal: SignedIn, request_service: WithRequestService, body: Body) -> JsonResponse:
    """What would happen to a job."""
    job = text_in(fields_of(body, {"yaml": True}), "yaml", MAX_JOB)
    return JsonResponse(await request_service.plan(pool, principal, job))


class PolicyText(TypedDict):
    """The policy in force. seq: of its record."""

    seq: int
    yaml: str


@router.get("/api/pools/{pool}/policy")
async def policy(pool: str, _: SignedIn, request_service: WithRequestService) -> PolicyText:
    """The policy in force, as YAML."""
    found = request_service.policy(pool)
    return {"seq": found["seq"], "yaml": yaml.safe_dump(found["policy"], sort_keys=False, allow_unicode=True)}


@router.post("/api/pools/{pool}/plan-policy", response_model=PolicyPlan)
async def plan_policy(pool: str, principal: SignedIn, request_service: WithRequestService, body: Body) -> JsonResponse:
    """What another policy would change now."""
    fields = fields_of(body, {"yaml": True, "enforce": False})
    text, enforce = text_in(fields, "yaml", MAX_POLICY), fields.get("enforce", False) is True
    return JsonResponse(await request_service.plan_policy(pool, principal, text, enforce=enforce))


class StartedWhatIf(TypedDict):
    """A what-if that runs."""

    id: str


@router.post("/api/pools/{pool}/what-if", status_code=202)
async def what_if(
    pool: str, principal: SignedIn, request_service: WithRequestService, what_ifs: WithWhatIfs, body: Body
) -> StartedWhatIf:
    """What would have happened under another policy."""
    fields = fields_of(body, {"yaml": True, "from": False, "to": False})
    query: dict[str, Any] = {"yaml": text_in(fields, "yaml", MAX_POLICY)}
    for name in ("from", "to"):
        query[name] = fields.get(name) or None
        if query[name] is not None:
            _check_point(query[name], name)
    followed = request_service.followed(pool)
    errors = (await request_service.worker.run("policy", {"yaml": query["yaml"]}, followed.state))["errors"]
    if errors:
        raise invalid(*map(ErrorDetail.model_validate, errors))
    records = followed.state.seq + 1
    started = what_ifs.start(principal, followed.name, {**query, "records": records}, records)
    return {"id": started.id}


def _check_point(text: object, name: str) -> None:
    if not isinstance(text, str) or len(text) > MAX_POINT:
        raise invalid(ErrorDetail(location=name, detail="expected a record's number or a time, as text"))
    try:
        point(text, name)
    except ClientError as problem:
        raise invalid(ErrorDetail(location=name, detail=str(problem))) from None


@router.get("/api/what-ifs/{id}", response_model=WhatIfStatus)
async def what_if_state(id: str, principal: SignedIn, what_ifs: WithWhatIfs) -> JsonResponse:  # noqa: A002 - in the address
    """Progress and result."""
    return JsonResponse(what_ifs.find(principal, id).to_data())


@router.get("/api/what-ifs/{id}/report", response_class=HTMLResponse)
async def what_if_report(id: str, principal: SignedIn, what_ifs: WithWhatIfs) -> Response:  # noqa: A002
    """The report as an HTML page with plots, sandboxed and without scripts."""
    found = what_ifs.find(principal, id)
    if not found.report:
        raise ApiError(404, "this what-if has no report")
    return HTMLResponse(found.report, headers={"content-security-policy": REPORT_POLICY, OWN: "yes"})


@router.delete("/api/what-ifs/{id}", response_model=WhatIfStatus)
async def cancel_what_if(id: str, principal: SignedIn, what_ifs: WithWhatIfs) -> JsonResponse:  # noqa: A002
    """Cancel the what-if."""
    return JsonResponse((await what_ifs.cancel(principal, id)).to_data())
