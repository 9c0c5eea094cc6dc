"""Who sends much: named before anything is rejected, above a limit rejected or made to wait, and in nobody's way.

With the real services and real signatures. What is limited is in docs/reference/limits.md.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.kits.log_builder import policy
from tests.kits.signed_pool import POOL, SignedPool, in_signed_pool
from tests.unit.bus.virtual_time import in_virtual_time

from bailiff.client.rejections import NEAR_FOR, PoolAlarms
from bailiff_admission.turns import LATER_EVERY, MAX_BYTES, Turns
from bailiff_bus import topics
from bailiff_bus.envelope import unwrap, wrap
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.permissions import ROOT_ACTOR
from bailiff_core.records.facts import InputRejected, WriterStarted
from bailiff_core.records.job_requests import CancelJob, JobSubmitted, PauseJob, SubmitJob
from bailiff_core.records.pool_requests import ApplyPolicy
from bailiff_log.keys import key_id, new_private_key

pytestmark = pytest.mark.slow  # all services and keys of a pool, for each test

ADA = new_private_key()
BURST = 60  # of a rate of one request per second


async def limited(pool: SignedPool, limits: dict[str, Any]) -> None:
    """Ada has a key, there is a project, and these limits hold."""
    rules = policy(projects=[{"name": "vision"}], limits=limits, identity={"keys": {key_id(ADA): "ada"}})
    pool.request(ApplyPolicy(policy=rules), pool.root)
    await pool.until("the policy is in force", lambda state: state.rules.projects)


def submits(pool: SignedPool, number: int, key: bytes | None = None, source: str = "/tests", command: str = "true") -> None:
    """A job of the project, from ada or from anybody."""
    demand = JobDemand(job=f"{'ada' if key else 'other'}-{number}", tasks=(TaskGroup(gpu_milli=4_000),), project="vision")
    body = SubmitJob(demand=demand, spec=JobSpec(command=command, runtime="simulated"))
    if key:
        pool.request(body, key)
    else:
        headers, value = wrap(body, source=source, id=f"{number}", pool=POOL, time_us=pool.now())
        pool.send(topics.REQUESTS.name, headers, value)


def alarms(pool: SignedPool, code: str) -> list[str]:
    bodies = [unwrap(message).body for message in pool.messages(topics.ALARMS.name)]
    return [body.text for body in bodies if isinstance(body, Alarm) and body.code == code]


def rejected(pool: SignedPool) -> list[InputRejected]:
    return [fact for fact in pool.facts(InputRejected) if fact.code == "too-many-requests"]


@in_signed_pool
async def test_who_nears_its_rate_is_named_before_anything_is_rejected(pool: SignedPool) -> None:
    await limited(pool, {"user": {"requests_per_second": 1}})
    await asyncio.sleep(BURST)
    for number in range(BURST):
        submits(pool, number, ADA)
        submits(pool, number, source="/loud")
    text = await pool.until_alarm("requests-near-limit", "ada")
    assert text.startswith("ada is at ")
    assert "% of limits.user.requests_per_second; above it, requests are rejected" in text
    text = await pool.until_alarm("requests-near-limit", "not verified")
    assert text.startswith("/loud (not verified) is at ")
    assert rejected(pool) == []
    assert len(alarms(pool, "requests-near-limit")) == 2
    forged = Alarm(severity="warning", code="requests-near-limit", text="mallory is at 99 %", about="user mallory")
    pool.send(topics.ALARMS.name, *wrap(forged, source="/bailiff/pool-a/admission", id="1", pool=POOL, time_us=pool.now()))
    shown = PoolAlarms(pool.cluster.client("console"))
    loud, ada = sorted(await shown.near_rates(pool.state, pool.now()))
    assert ada.startswith("Ada is at ")
    assert loud.startswith("/loud (not verified) is at ")
    assert await shown.near_rates(pool.state, pool.now(), ["user ada", "pool"]) == [ada]
    assert await shown.near_rates(pool.state, pool.now() + NEAR_FOR, None) == [], "five minutes later"
    for number in range(BURST, 2 * BURST):
        submits(pool, number, ADA)
    await pool.until_rejected("too-many-requests")
    assert {fact.sender for fact in rejected(pool)} == {"ada"}


@in_signed_pool
async def test_a_stranger_uses_up_nothing_of_a_project_s_rate(pool: SignedPool) -> None:
    await limited(pool, {"project": {"requests_per_second": 1}})
    for number in range(2 * BURST):
        submits(pool, number, source=f"/stranger-{number % 7}")
    await pool.until_alarm("requests-near-limit", "project vision")
    await pool.until_rejected("too-many-requests")
    for number in range(BURST // 2):
        submits(pool, number, ADA)
    await pool.until("ada's jobs are submitted", lambda state: f"ada-{BURST // 2 - 1}" in state.jobs)
    assert [fact for fact in rejected(pool) if fact.sender] == []
    assert len([fact for fact in pool.facts(JobSubmitted) if fact.demand.job.startswith("ada")]) == BURST // 2


@pytest.mark.parametrize(("rate", "of"), [("requests_per_second", 1), ("bytes_per_second", 1024)])
@in_signed_pool
async def test_above_the_rates_of_the_pool_requests_wait_and_an_alarm_says_so(pool: SignedPool, rate: str, of: int) -> None:
    await limited(pool, {"pool": {rate: of}})
    await asyncio.sleep(BURST)
    for number in range(2 * BURST):
        submits(pool, number, ADA, command="x" * 1024)
    text = await pool.until_alarm("requests-near-limit", "the pool is at")
    assert text.endswith(f"% of limits.pool.{rate}; above it, requests wait")
    await pool.until("all are submitted", lambda state: f"ada-{2 * BURST - 1}" in state.jobs, within_s=10 * BURST)
    assert rejected(pool) == []


@pytest.mark.parametrize("whose", ["user", "project"])
@in_virtual_time
async def test_bytes_are_limited_and_the_rejection_says_from_when_on_they_are_not(tmp_path: Path, whose: str) -> None:
    rate, long = 1024, "x" * 4096
    async with SignedPool(tmp_path) as pool:
        await limited(pool, {whose: {"bytes_per_second": rate}})
        for number in range(BURST):
            submits(pool, number, ADA, command=long)
        size = min(len(message.value) for message in pool.messages(topics.REQUESTS.name)[-BURST:])
        await pool.until("each is answered", lambda state: len(state.jobs) + sum(each.count for each in rejected(pool)) == BURST)
        assert 0 < len(pool.state.jobs) <= rate * BURST // size + 1
        last = rejected(pool)[-1]
        assert (last.sender, f"(limits.{whose})" in last.reason) == ("ada", True)
        assert last.retry_at is not None
        await asyncio.sleep((last.retry_at - pool.now()) / 1_000_000)
        submits(pool, BURST, ADA, command=long)
        await pool.until("it is accepted at that time", lambda state: f"ada-{BURST}" in state.jobs)


@in_signed_pool
async def test_in_a_flood_what_an_operator_does_to_others_jobs_comes_first_in_no_rate_and_stops_nobody(
    pool: SignedPool,
) -> None:
    await limited(pool, {"user": {"requests_per_second": 1}, "pool": {"requests_per_second": 1}})
    for number in range(BURST):
        submits(pool, number, ADA)
    await pool.until("the pool's rate is used up", lambda state: len(state.jobs) == BURST, within_s=2 * BURST)
    await asyncio.sleep(BURST // 2)
    pool.request(PauseJob(job="ada-0"), actor=ROOT_ACTOR)  # a claim
    for number in range(BURST - 1):
        submits(pool, number)
    for number in range(BURST, BURST + BURST // 2 - 1):
        submits(pool, number, ADA)
    begins = len(pool.messages(topics.REQUESTS.name))
    for job in range(BURST):
        pool.request(PauseJob(job=f"ada-{job}"), pool.root)
        pool.request(CancelJob(job=f"ada-{job}"), pool.root)
    await pool.until("all are decided", lambda state: f"other-{BURST - 2}" in state.jobs, within_s=10 * BURST)
    auth = {
        int(each.cause.rpartition("/")[2]): each.auth for each in pool.records() if each.cause.startswith(topics.REQUESTS.name)
    }
    assert [at for at in auth if at >= begins] == list(range(begins, begins + 2 * BURST)), "each is decided, in their order"
    decided = list(auth)
    meanwhile = decided[decided.index(begins) : decided.index(begins + 2 * BURST - 1)]
    others, share = Counter(auth[at] for at in meanwhile if at < begins), len(meanwhile) // LATER_EVERY
    assert others.keys() == {"signed", "none"}, "they stop nobody"
    assert all(count <= share + 1 for count in others.values()), "others wait for them"
    assert rejected(pool) == []


@in_virtual_time
async def test_of_too_many_that_wait_the_newest_of_the_loudest_are_rejected_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Turns.__init__, "__defaults__", (20, MAX_BYTES))  # requests that wait
    async with SignedPool(tmp_path) as pool:
        await limited(pool, {})
        await pool.stop("admission")
        for number in range(50):
            submits(pool, number, source="/loud")
        submits(pool, 50, source="/other")
        for replica in ("first", "second"):
            pool.start_admission(name=replica)
            await asyncio.sleep(2 * BURST)
            await pool.stop(replica)
        await pool.until("it is read", lambda state: len(state.jobs) == 20)
        assert len(pool.facts(WriterStarted)) == 3
        assert {*pool.state.jobs} == {*(f"other-{number}" for number in range(19)), "other-50"}
        assert {each.source for each in rejected(pool)} == {"/loud"}
        assert sum(each.count for each in rejected(pool)) == 31
        assert "more requests of this user wait than the pool reads ahead" in rejected(pool)[0].reason
