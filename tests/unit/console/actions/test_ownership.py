"""The console asks the policy's permissions first, signs whom it vouches for, and shows output to those who may read it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kits.http import problem
from tests.kits.log_builder import HOUR, policy
from tests.unit.client.kit import LogWriter, request_id
from tests.unit.console.actions.kit import RequestService, published, running_console

from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.identity import SignIn
from bailiff_core.records import facts
from bailiff_log.keys import key_id, make_private_key
from bailiff_log.signatures import verify
from bailiff_service.clock_and_ids import SYSTEM

JOB = "name: new\ngpus: 1\ncommand: [python, train.py]\n"
PERMISSIONS = "/api/pools/pool-a/jobs/{}/permissions"


@asynccontextmanager
async def console_of(
    folder: Path, limits: dict[str, Any] | None = None, budgets: Sequence[Any] = (), **identity: Any
) -> AsyncIterator[RequestService]:
    """A console that signs, with ada as its user, in a pool with a job of bob and one of hers."""
    key = folder / "console.key"
    keys = {key_id(make_private_key(key)): "console"}
    log_writer = LogWriter()
    log_writer.begin(
        policy(identity={"keys": keys, "operators": ["ops"], **identity}, limits=limits or {}, budgets=list(budgets))
    )
    log_writer.node("gpu-01", gpus=4)
    for job, user in (("of-bob", "bob"), ("of-ada", "console/ada")):
        demand = JobDemand(job=job, tasks=(TaskGroup(gpu_milli=1000),))
        submitted = facts.JobSubmitted(
            request=request_id(job), demand=demand, spec_digest="a" * 64, user=user, user_verified=True
        )
        log_writer.cycle(submitted, actor=user)
    async with running_console(folder, log_writer, key=key, actor="console") as request_service:
        yield request_service


async def test_the_limits_that_are_near_are_those_of_the_visitor_or_of_all(tmp_path: Path) -> None:
    async with console_of(tmp_path, limits={"user": {"open_jobs": 1}}) as console:
        near = "/api/pools/pool-a/limits"
        everybody = (await console.console.http.get(near, headers=console.headers)).json()
        assert [text.partition(":")[0] for text in everybody] == ["User bob", "User console/ada"]
        console.log_writer.now = SYSTEM.wall()
        for about in ("user bob", "user console/ada", "project research", "project vision", "pool"):
            alarm = Alarm(severity="warning", code="requests-near-limit", text=f"{about} is near", about=about)
            headers, value = wrap(alarm, source="/admission", id=about, pool="pool-a", time_us=1)
            console.log_writer.cluster.store(topics.ALARMS.name, 0, b"pool-a", headers, value)
        own = (await console.console.http.get(f"{near}?project=research", headers=console.headers)).json()
        assert own[0].startswith("User console/ada:")
        assert {text.partition(" is near,")[0] for text in own[1:]} == {"User console/ada", "Project research", "Pool"}
        assert len((await console.console.http.get(near, headers=console.headers)).json()) == 2 + 5


async def test_budgets_that_are_used_are_among_the_limits(tmp_path: Path) -> None:
    async with console_of(tmp_path, budgets=[{"name": "all", "gpu_hours": 0}]) as console:
        for query in ("", "?project=research"):
            (text,) = (await console.console.http.get(f"/api/pools/pool-a/limits{query}", headers=console.headers)).json()
            assert text.startswith("The budget all has used 0 GPU-s of 0 GPU-h"), text


async def test_reservations_are_listed_the_soonest_first(tmp_path: Path) -> None:
    async with console_of(tmp_path) as console:
        now = SYSTEM.wall()
        for name, hours in (("late", 9), ("soon", 2)):
            made = facts.GpusReserved(
                request=request_id(name), reservation=name, project="demo", gpus=2, begin=now + hours * HOUR, duration=HOUR
            )
            console.log_writer.cycle(made)
        rows = (await console.console.http.get("/api/pools/pool-a/reservations", headers=console.headers)).json()
        assert [(row["reservation"], row["gpus"], row["now"]) for row in rows] == [("soon", 2, False), ("late", 2, False)]


@pytest.mark.slow
async def test_what_admission_would_deny_is_not_published_and_the_rule_is_named(tmp_path: Path) -> None:
    async with console_of(tmp_path) as console:
        refused = await console.refused(403, "requests", kind="cancel", job="of-bob")
        assert refused["detail"].startswith("console/ada may not cancel of-bob, a job of bob")
        assert "(rule permissions.cancel)" in refused["detail"]
        previewed = await console.posted("preview", kind="pause", job="of-bob")
        assert "(rule permissions.pause)" in previewed["errors"][0]["detail"]
        assert "(rule operators)" in (await console.refused(403, "requests", kind="drain", node="gpu-01"))["detail"]
        assert published(console) == []
        denied = (await console.console.http.get(PERMISSIONS.format("of-bob"), headers=console.headers)).json()
        assert all("(rule permissions." in reason for reason in denied.values())
        actions = {"cancel", "pause", "resume", "checkpoint", "migrate", "evict", "scale", "set-priority-class"}
        actions |= {"logs", "attach", "spec"}
        assert denied.keys() == actions
        answer = await console.console.http.get("/api/pools/pool-a/logs/of-bob", headers=console.headers)
        assert "(rule permissions.logs)" in problem(answer, 403)["detail"]


@pytest.mark.slow
async def test_the_owner_may_and_the_request_says_who_vouches_for_her(tmp_path: Path) -> None:
    async with console_of(tmp_path) as console:
        permitted = (await console.console.http.get(PERMISSIONS.format("of-ada"), headers=console.headers)).json()
        assert set(permitted.values()) == {None}
        assert (await console.posted("requests", kind="pause", job="of-ada"))["accepted"]
        assert (await console.posted("requests", kind="submit", yaml=JOB, id="once"))["accepted"]
        assert (await console.posted("requests", kind="submit", yaml=JOB, id="once"))["accepted"]  # a repeat is the same request
        for envelope in published(console):
            identity = verify(envelope, console.log_writer.state.rules.identity.keys)
            assert (identity.actor, identity.auth) == ("console/ada", "signed")
            assert getattr(envelope.body, "vouched_by", None) == SignIn(issuer="local", subject="ada")


@pytest.mark.slow
async def test_a_trusted_sign_in_is_the_person(tmp_path: Path) -> None:
    async with console_of(tmp_path, sign_ins=["console"], operators=["ada"]) as console:
        permitted = (await console.console.http.get(PERMISSIONS.format("of-bob"), headers=console.headers)).json()
        assert "(rule permissions.spec)" in permitted.pop("spec")  # an operator does not read commands
        assert set(permitted.values()) == {None}
