"""Requests of people: allowed or not, thought through, published in their name, and the answer awaited."""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from bailiff.client import Client, Outcome
from bailiff.present.policy import policy_in_force
from bailiff_bus.envelope import content_digest
from bailiff_bus.messages import RequestBody, SubmitJob
from bailiff_console.door.person import Person
from bailiff_console.door.rights import OF_NODES, refusal
from bailiff_console.problems import Fault, Refused
from bailiff_core.fold.log import request_key
from bailiff_core.model.pool import Pool

from .answers import Answers
from .asked import Asked
from .kinds import SUBMIT
from .pools import Following, Pools
from .telling import job_of
from .thinker import Thinker

ANSWER_WITHIN_S = 10.0


class Desk:
    """One for the console. now: µs UTC."""

    def __init__(
        self, pools: Pools, client: Client, thinker: Thinker, *, answer_within: float = ANSWER_WITHIN_S,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:  # fmt: skip
        self._pools, self._client, self.thinker, self._now = pools, client, thinker, now
        self._answer_within = answer_within
        self.answers = Answers(client.source)

    def followed(self, name: str) -> Following:
        """The pool. Raises `Refused`."""
        found = self._pools.get(name)
        if found.pool.policy is None:
            raise Refused(503, f"no policy has been applied in {name} yet", headers={"retry-after": "2"})
        found.heard = self.answers.take
        return found

    async def request(self, name: str, person: Person, asked: Asked) -> dict[str, Any]:
        """Publish it. The answer's `accepted` is null where admission has not answered in time. Raises `Refused`, `Problem`."""
        followed = self.followed(name)
        body, job, project = await self._read(followed.pool, person, asked)
        _allow(person, asked.kind, project, followed.pool)
        id = asked.id or uuid.uuid4().hex  # noqa: A001 - of the request
        actor = f"{self._client.actor}/{person.name}" if self._client.actor else person.name
        outcome = self._remembered(followed.pool, id, content_digest(body.TYPE, name, body.to_json(), actor))
        if outcome is None:
            with self.answers.awaited(id) as answer:
                await self._client.request(name, body, id=id, actor=actor)
                if (await asyncio.wait({answer}, timeout=self._answer_within))[0]:
                    outcome = answer.result()
        told: dict[str, Any] = {"id": id, "job": job, "accepted": None, "seq": None, "code": "", "reason": ""}
        if outcome is not None:
            told |= {"accepted": outcome.accepted, "seq": outcome.seq, "code": outcome.code, "reason": outcome.reason}
        return told

    def _remembered(self, pool: Pool, id: str, digest: str) -> Outcome | None:  # noqa: A002
        """The answer to the same request, where it was asked before. Raises `Refused` where the id was used for another one."""
        memo = pool.requests.get(request_key(self._client.source, id))
        if memo is not None and memo.digest != digest:
            raise Refused(409, f"the id {id} was used for another request, at #{memo.seq}: choose a new one")
        return Outcome(True, memo.seq) if memo is not None else None

    async def preview(self, name: str, person: Person, asked: Asked) -> dict[str, Any]:
        """What it would cause, and why this person could not ask for it."""
        pool = self.followed(name).pool
        fields: dict[str, Any] = {"kind": asked.kind, "now": self._now(), "project": own_project(person)}
        if asked.body is None:
            fields["yaml"] = asked.yaml
            project = (await self.thinker.ask("job", {"yaml": asked.yaml, "project": own_project(person)}, pool))["project"]
        else:
            fields["body"] = asked.body.model_dump_json()
            project = "" if asked.kind in OF_NODES else job_of(pool, _job(asked.body)).project
        found = await self.thinker.ask("preview", fields, pool)
        forbidden = refusal(person, asked.kind, project, pool.policy)
        if forbidden is not None:
            found["faults"] = [{"where": "", "text": forbidden}, *found["faults"]]
        return found

    async def plan(self, name: str, person: Person, yaml: str) -> dict[str, Any]:
        """What would become of this job."""
        return await self.thinker.ask(
            "plan", {"yaml": yaml, "now": self._now(), "project": own_project(person)}, self.followed(name).pool
        )

    async def plan_policy(self, name: str, yaml: str) -> dict[str, Any]:
        """What this policy would change."""
        return await self.thinker.ask("plan-policy", {"yaml": yaml, "now": self._now()}, self.followed(name).pool)

    def policy(self, name: str) -> dict[str, Any]:
        """The policy in force."""
        return policy_in_force(self.followed(name).pool)

    async def _read(self, pool: Pool, person: Person, asked: Asked) -> tuple[RequestBody, str, str]:
        """The message, the job that it is about, and that job's project."""
        if asked.body is not None:
            if asked.kind in OF_NODES:
                return asked.body, "", ""
            job = _job(asked.body)
            if job not in pool.jobs:
                _allow(person, asked.kind, "", pool)  # who may nothing learns nothing of jobs that are gone
            return asked.body, job, job_of(pool, job).project
        assert asked.kind == SUBMIT
        found = await self.thinker.ask("job", {"yaml": asked.yaml, "project": own_project(person)}, pool)
        if found["job"] is None:
            raise faulty(found["faults"])
        submit = SubmitJob.model_validate_json(found["job"])
        return submit, submit.demand.job, found["project"]


def _job(body: RequestBody) -> str:
    return str(getattr(body, "job", ""))


def faulty(faults: Sequence[Fault]) -> Refused:
    """What somebody wrote does not fit."""
    return Refused(400, "; ".join(f"{each['where']}: {each['text']}" for each in faults[:5]), faults)


def own_project(person: Person) -> str | None:
    """The project that a job is in which names none: the person's, where there is just one."""
    return person.projects[0] if person.projects is not None and len(person.projects) == 1 else None


def _allow(person: Person, kind: str, project: str, pool: Pool) -> None:
    forbidden = refusal(person, kind, project, pool.policy)
    if forbidden is not None:
        raise Refused(403, forbidden)
