"""Requests of admission's grant to attach to a task, on behalf of a signed-in person."""

from bailiff.attach.grants import ADVICE
from bailiff.render.record_text.tasks import ATTACH_ENDS
from bailiff_console.actions.request_parser import ParsedRequest
from bailiff_console.actions.request_service import RequestService
from bailiff_console.auth.principal import Principal
from bailiff_core.records.facts import AttachReady
from bailiff_core.records.job_requests import AttachJob
from bailiff_service.problems import ApiError

AGENT_ANSWERS_WITHIN_S = 10.0


class NotThere(Exception):
    """What a person attaches to cannot be reached now, but may be later."""


async def granted(request_service: RequestService, pool: str, principal: Principal, body: AttachJob) -> AttachReady:
    """Where the node agent waits for the holder of the certificate's key. Raises `ApiError` or `NotThere`."""
    outcome = await request_service.request(pool, principal, ParsedRequest("attach", body))
    if outcome["accepted"] is None or outcome["seq"] is None:
        raise NotThere("Admission does not answer.")
    if not outcome["accepted"]:
        if outcome["code"] == "not-running":
            raise NotThere(f"{outcome['reason']}.")
        raise ApiError(403, outcome["reason"])
    answer = await request_service.grant_answers.next(pool, outcome["seq"], AGENT_ANSWERS_WITHIN_S)
    if not isinstance(answer, AttachReady):
        if answer is None:
            raise NotThere(f"The node agent of {body.job} does not answer.")
        advice = f" ({ADVICE[answer.reason]})" if answer.reason in ADVICE else ""
        raise NotThere(f"The node agent of {body.job} does not connect: {ATTACH_ENDS[answer.reason]}{advice}.")
    return answer
