"""What people ask for over HTTP: requests, previews, plans, policies, what-ifs."""

from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from bailiff.moments import point
from bailiff.problem import Problem
from bailiff_console.door.body import whole_body
from bailiff_console.door.headers import OWN
from bailiff_console.door.routes import Signed
from bailiff_console.problems import Refused

from .asked import LARGEST_JOB, LARGEST_POLICY, asked_in, fields_of, text_in
from .desk import Desk, faulty
from .whatifs import WhatIfs

router = APIRouter()
REPORT_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
LONGEST_POINT = 64

Body = Annotated[bytes, Depends(whole_body)]


def desk_of(request: Request) -> Desk:
    """The application holds it."""
    desk: Desk = request.app.state.desk
    return desk


def what_ifs_of(request: Request) -> WhatIfs:
    """The application holds them."""
    found: WhatIfs = request.app.state.what_ifs
    return found


AtDesk = Annotated[Desk, Depends(desk_of)]
Asking = Annotated[WhatIfs, Depends(what_ifs_of)]


@router.post("/api/pools/{pool}/requests")
async def request(pool: str, person: Signed, desk: AtDesk, body: Body) -> dict[str, Any]:
    """Ask for it."""
    return await desk.request(pool, person, asked_in(body))


@router.post("/api/pools/{pool}/preview")
async def preview(pool: str, person: Signed, desk: AtDesk, body: Body) -> dict[str, Any]:
    """What it would cause. Nothing is asked for."""
    return await desk.preview(pool, person, asked_in(body))


@router.post("/api/pools/{pool}/plan")
async def plan(pool: str, person: Signed, desk: AtDesk, body: Body) -> dict[str, Any]:
    """What would become of a job."""
    return await desk.plan(pool, person, text_in(fields_of(body, {"yaml": True}), "yaml", LARGEST_JOB))


@router.get("/api/pools/{pool}/policy")
async def policy(pool: str, _: Signed, desk: AtDesk) -> dict[str, Any]:
    """The policy in force, as a file would hold it."""
    found = desk.policy(pool)
    return {"seq": found["seq"], "yaml": yaml.safe_dump(found["policy"], sort_keys=False, allow_unicode=True)}


@router.post("/api/pools/{pool}/plan-policy")
async def plan_policy(pool: str, _: Signed, desk: AtDesk, body: Body) -> dict[str, Any]:
    """What another policy would change now."""
    return await desk.plan_policy(pool, text_in(fields_of(body, {"yaml": True}), "yaml", LARGEST_POLICY))


@router.post("/api/pools/{pool}/what-if")
async def what_if(pool: str, person: Signed, desk: AtDesk, asking: Asking, body: Body) -> Response:
    """What would have happened under another policy."""
    fields = fields_of(body, {"yaml": True, "from": False, "to": False})
    asked: dict[str, Any] = {"yaml": text_in(fields, "yaml", LARGEST_POLICY)}
    for name in ("from", "to"):
        asked[name] = fields.get(name) or None
        if asked[name] is not None:
            _check_point(asked[name], name)
    followed = desk.followed(pool)
    faults = (await desk.thinker.ask("policy", {"yaml": asked["yaml"]}, followed.pool))["faults"]
    if faults:
        raise faulty(faults)
    records = followed.pool.seq + 1
    begun = asking.start(person, followed.name, {**asked, "records": records}, records)
    return JSONResponse({"id": begun.id}, 202)


def _check_point(text: object, name: str) -> None:
    if not isinstance(text, str) or len(text) > LONGEST_POINT:
        raise Refused(400, f"{name}: expected a record's number or a time, as text")
    try:
        point(text, name)
    except Problem as problem:
        raise Refused(400, str(problem), [{"where": name, "text": str(problem)}]) from None


@router.get("/api/what-ifs/{id}")
async def what_if_state(id: str, person: Signed, asking: Asking) -> dict[str, Any]:  # noqa: A002 - in the address
    """How far it is, and what came of it."""
    return asking.find(person, id).to_data()


@router.get("/api/what-ifs/{id}/report")
async def what_if_report(id: str, person: Signed, asking: Asking) -> Response:  # noqa: A002
    """The page with plots: no script runs in it, and it is of no site."""
    found = asking.find(person, id)
    if not found.report:
        raise Refused(404, "this what-if has no report")
    return HTMLResponse(found.report, headers={"content-security-policy": REPORT_POLICY, OWN: "yes"})


@router.delete("/api/what-ifs/{id}")
async def cancel_what_if(id: str, person: Signed, asking: Asking) -> dict[str, Any]:  # noqa: A002
    """Stop it."""
    return (await asking.cancel(person, id)).to_data()
