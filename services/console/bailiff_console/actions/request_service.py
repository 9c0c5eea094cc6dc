"""Requests of signed-in users: authorized, previewed, published in their name; waits for the outcome."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import yaml
from typing_extensions import TypedDict

from bailiff.client.client import Client, Outcome
from bailiff.client.job_again import document_again
from bailiff.client.job_spec import ends_of_copies, spec_copy
from bailiff.client.preview import at
from bailiff.client.requester import lost_by
from bailiff.policy.apply import ALREADY
from bailiff.render.serializers.policy import policy_in_force
from bailiff_console.auth.permissions import ACTIONS, OF_NODES, denied, logs_denied
from bailiff_console.auth.principal import Principal
from bailiff_console.auth.requester import RequesterNames
from bailiff_core.admission.pool import in_force
from bailiff_core.explain.budgets import budgets_near
from bailiff_core.explain.open_job_limits import limits_near, near_limits
from bailiff_core.fold.log import request_key
from bailiff_core.model.policy import Policy
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester
from bailiff_core.records.job_requests import ReadJobSpec, SubmitJob
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_core.records.request import RequestBody
from bailiff_core.views import BudgetView, ReservationView, budget_views, reservation_views
from bailiff_log.reader import Entry
from bailiff_log.spec_copies import new_reader
from bailiff_service.problems import ApiError, ErrorDetail, invalid

from .outcomes import GrantAnswers, PendingOutcomes
from .pool_access import FollowedPool, Pools
from .preview_text import error_row, job_of
from .request_parser import ParsedRequest
from .request_types import POLICY, SUBMIT
from .worker import Worker

OUTCOME_TIMEOUT_S = 10.0
CONFIRMATION = "lose_permissions"
CONFIRM = "Nothing is applied unless you confirm that you lose permissions."


class RequestOutcome(TypedDict):
    """What admission answered. accepted: null: nothing yet; the request is in Kafka. seq: of the record."""

    id: str
    job: str
    accepted: bool | None
    seq: int | None
    code: str
    reason: str


class ReadableSpec(TypedDict):
    """The private part of a job. yaml: a file to submit it again."""

    spec: dict[str, Any]
    yaml: str


class RequestService:
    """names: under which names users' requests are sent. now: clock, µs UTC."""

    def __init__(
        self,
        pools: Pools,
        client: Client,
        worker: Worker,
        *,
        names: RequesterNames,
        outcome_timeout: float = OUTCOME_TIMEOUT_S,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self.names = names
        self._pools, self._client, self.worker, self._now = pools, client, worker, now
        self._outcome_timeout = outcome_timeout
        self.pending_outcomes, self.grant_answers = PendingOutcomes(client.source), GrantAnswers(client.source)

    def followed(self, name: str) -> FollowedPool:
        """The pool. Raises `ApiError`."""
        found = self._pools.get(name)
        if found.state.policy is None:
            raise ApiError(503, f"no policy is applied in {name} yet", headers={"retry-after": "2"})
        found.on_record = self._take
        return found

    def _take(self, entry: Entry) -> None:
        self.pending_outcomes.take(entry)
        self.grant_answers.take(entry)

    async def request(self, name: str, principal: Principal, parsed: ParsedRequest) -> RequestOutcome:
        """Publish the request. `accepted` is null if its outcome is not known in time. Raises `ApiError`, `ClientError`."""
        followed = self.followed(name)
        body, job, project = await self._read(followed.state, principal, parsed)
        self._allow(principal, parsed.kind, job, project, followed.state)
        lost = [] if parsed.lose_permissions else lost_by(followed.state, body, self.names.requester(principal, followed.state))
        if lost:
            raise invalid(*(ErrorDetail(location=CONFIRMATION, detail=f"{text} {CONFIRM}") for text in lost))
        id = parsed.id or uuid.uuid4().hex  # noqa: A001 - of the request
        actor = self.names.actor(principal)
        body = body.model_copy(update={"vouched_by": self.names.sign_in(principal)})
        outcome = self._known_outcome(followed.state, id, actor, self._client.content_digest(name, body, id, actor))
        if outcome is None and isinstance(body, ApplyPolicy) and (why := in_force(followed.state, body)) is not None:
            outcome = Outcome(False, followed.state.policy_revision, ALREADY, why)  # nothing is recorded
        if outcome is None:
            owner, sending = (
                self._client.owner_of_ids(followed.state, actor),
                self._client.request(name, body, id=id, actor=actor),
            )
            outcome = await self.pending_outcomes.outcome_of(id, owner, sending, self._outcome_timeout)
        if outcome is None:
            return {"id": id, "job": job, "accepted": None, "seq": None, "code": "", "reason": ""}
        return {
            "id": id,
            "job": job,
            "accepted": outcome.accepted,
            "seq": outcome.seq,
            "code": outcome.code,
            "reason": outcome.reason,
        }

    def _known_outcome(self, state: PoolState, id: str, actor: str, digest: str) -> Outcome | None:  # noqa: A002
        """The outcome if the same request was made before. Raises `ApiError` if the id was used for a different request."""
        known = state.requests.get(request_key(self._client.source, id, self._client.owner_of_ids(state, actor)))
        if known is not None and known.digest != digest:
            raise ApiError(409, f"request id {id} was used for a different request (#{known.seq}): choose a new id")
        return Outcome(True, known.seq) if known is not None else None

    async def preview(self, name: str, principal: Principal, parsed: ParsedRequest) -> dict[str, Any]:
        """The effects of the request, and why this user may not make it."""
        state = self.followed(name).state
        if parsed.kind == POLICY:
            return await self._preview_policy(state, principal, parsed)
        fields: dict[str, Any] = {"kind": parsed.kind, "now": self._now()}
        if parsed.body is None:
            fields |= self._job_fields(principal, parsed.yaml, state)
            project = (await self.worker.run("job", fields, state))["project"]
            job = ""
        else:
            requester = self.names.requester(principal, state)
            fields |= {"body": parsed.body.model_dump_json(), "requester": _as_fields(requester)}
            job = "" if parsed.kind in OF_NODES else _job(parsed.body)
            project = job_of(state, job).project if job else ""
        found = await self.worker.run("preview", fields, state)
        forbidden = self._denied(principal, parsed.kind, job, project, state)
        if forbidden is not None:
            others = [error for error in found["errors"] if error["detail"] != forbidden]
            found["errors"] = [error_row(forbidden), *others]
        return found

    async def _preview_policy(self, state: PoolState, principal: Principal, parsed: ParsedRequest) -> dict[str, Any]:
        found = await self.plan_policy(state.pool, principal, parsed.yaml, enforce=parsed.enforce)
        errors = list(found["errors"])
        if parsed.expected_revision != state.policy_revision:
            errors.append(error_row(f"another policy, #{state.policy_revision}, is in force: reload it"))
        if found["loses_permissions"] and not parsed.lose_permissions:
            errors.append({"location": CONFIRMATION, "detail": CONFIRM})
        forbidden = self._denied(principal, POLICY, "", "", state)
        if forbidden is not None:
            errors.insert(0, error_row(forbidden))
        return {"sentences": found["sentences"], "affected": [], "errors": errors}

    def permissions(self, name: str, principal: Principal, job: str) -> dict[str, str | None]:
        """Why the user may not do this to the job, by kind of request, and for its output; null: permitted."""
        state = self.followed(name).state
        project = job_of(state, job).project
        kinds = {kind: self._denied(principal, kind, job, project, state) for kind in ACTIONS}
        return {**kinds, "logs": logs_denied(self.names.requester(principal, state), state, job)}

    def allow_logs(self, name: str, principal: Principal, job: str) -> None:
        """Raises `ApiError` if the user may not read the job's output."""
        state = self.followed(name).state
        forbidden = logs_denied(self.names.requester(principal, state), state, job)
        if forbidden is not None:
            raise ApiError(403, forbidden)

    def allow_job(self, name: str, principal: Principal, kind: str, job: str) -> PoolState:
        """The pool's state. Raises `ApiError` if the user may not make this request about the job."""
        state = self.followed(name).state
        self._allow(principal, kind, job, job_of(state, job).project if job in state.jobs else "", state)
        return state

    async def spec(self, name: str, principal: Principal, job: str) -> ReadableSpec:
        """The private part of the job, and its job file to submit it again. Raises `ApiError`, `ClientError`."""
        state = self.allow_job(name, principal, "spec", job)
        if job not in state.jobs:
            raise ApiError(404, f"the pool no longer has the job {job!r}")
        private, public = new_reader()
        ends = await ends_of_copies(self._client)
        body = ReadJobSpec(job=job, encryption_key=public)
        outcome = await self.request(name, principal, ParsedRequest("spec", body))
        if not outcome["accepted"] or outcome["seq"] is None:
            raise ApiError(503 if outcome["accepted"] is None else 403, outcome["reason"] or "admission does not answer")
        found, missing = await spec_copy(self._client, name, state.jobs[job], outcome["seq"], ends, private)
        if found is None:
            raise ApiError(410, f"the command of {job} cannot be read: {missing}")
        again = document_again(state, state.jobs[job], found)
        return {"spec": found.to_data(), "yaml": yaml.safe_dump(again, sort_keys=False, allow_unicode=True)}

    def _allow(self, principal: Principal, kind: str, job: str, project: str, state: PoolState) -> None:
        forbidden = self._denied(principal, kind, job, project, state)
        if forbidden is not None:
            raise ApiError(403, forbidden)

    def _denied(self, principal: Principal, kind: str, job: str, project: str, state: PoolState) -> str | None:
        return denied(principal, self.names.requester(principal, state), kind, state, job=job, project=project)

    async def plan(self, name: str, principal: Principal, yaml: str) -> dict[str, Any]:
        """What would happen to this job if it were submitted now."""
        state = self.followed(name).state
        return await self.worker.run("plan", {**self._job_fields(principal, yaml, state), "now": self._now()}, state)

    async def limits(self, name: str, principal: Principal, project: str | None) -> list[str]:
        """The limits that are near, and the budgets that are used: for a job of this user in the project, or for all."""
        followed = self.followed(name)
        state, alarms = followed.state, followed.alarms
        if project is None:
            return [*near_limits(state), *budgets_near(state), *await alarms.near_rates(state, self._now())]
        requester = self.names.requester(principal, state)
        whose = ["pool", f"project {project}", *([f"user {requester.actor}"] if requester.verified else [])]
        open_jobs = limits_near(state, requester.actor, requester.verified, project)
        return [*open_jobs, *budgets_near(state, project), *await alarms.near_rates(state, self._now(), whose)]

    def _job_fields(self, principal: Principal, yaml: str, state: PoolState) -> dict[str, Any]:
        """What the worker needs to read a job of this user."""
        requester = _as_fields(self.names.requester(principal, state))
        return {"yaml": yaml, "project": own_project(principal), "user": self.names.actor(principal), "requester": requester}

    async def plan_policy(self, name: str, principal: Principal, yaml: str, *, enforce: bool = False) -> dict[str, Any]:
        """What this policy would change now, also for the user."""
        state = self.followed(name).state
        requester = _as_fields(self.names.requester(principal, state))
        fields = {"yaml": yaml, "now": self._now(), "enforce": enforce, "requester": requester}
        return await self.worker.run("plan-policy", fields, state)

    def budgets(self, name: str) -> list[BudgetView]:
        """What the budgets of this month have used until now."""
        return budget_views(at(self.followed(name).state, self._now()))

    def reservations(self, name: str) -> list[ReservationView]:
        """The GPUs that are reserved for projects, as of now."""
        return reservation_views(at(self.followed(name).state, self._now()))

    def policy(self, name: str) -> dict[str, Any]:
        """The policy in force."""
        return policy_in_force(self.followed(name).state)

    async def _read(self, state: PoolState, principal: Principal, parsed: ParsedRequest) -> tuple[RequestBody, str, str]:
        """The message, its job, and the job's project."""
        if parsed.body is not None:
            if parsed.kind in OF_NODES:
                return parsed.body, "", ""
            job = _job(parsed.body)
            if job not in state.jobs:
                self._allow(principal, parsed.kind, job, "", state)  # unauthorized users must not learn which jobs existed
            return parsed.body, job, job_of(state, job).project
        if parsed.kind == POLICY:
            self._allow(principal, POLICY, "", "", state)
            found = await self.worker.run("policy", {"yaml": parsed.yaml}, state)
            if found["policy"] is None:
                raise invalid(*map(ErrorDetail.model_validate, found["errors"]))
            policy = Policy.model_validate_json(found["policy"])
            made_from, reason = parsed.expected_revision, parsed.reason
            return ApplyPolicy(policy=policy, enforce=parsed.enforce, expected_revision=made_from, reason=reason), "", ""
        assert parsed.kind == SUBMIT
        found = await self.worker.run("job", self._job_fields(principal, parsed.yaml, state), state)
        if found["job"] is None:
            raise invalid(*map(ErrorDetail.model_validate, found["errors"]))
        submit = SubmitJob.model_validate_json(found["job"])
        return submit, submit.demand.job, found["project"]


def _job(body: RequestBody) -> str:
    return str(getattr(body, "job", ""))


def own_project(principal: Principal) -> str | None:
    """Default project of a submitted job: the user's, if there is exactly one."""
    return principal.projects[0] if principal.projects is not None and len(principal.projects) == 1 else None


def _as_fields(requester: Requester) -> dict[str, str]:
    return {"actor": requester.actor, "auth": requester.auth}
