"""The requests of one signer are taken in the order in which they were sent, also while a policy changes who that is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kits.log_faults import named_by_verify
from tests.kits.signed_pool import SignedPool
from tests.unit.bus.virtual_time import run

from bailiff_admission.rates import BURST, SECOND
from bailiff_bus import topics
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec, Workload
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.records import Record
from bailiff_core.records.facts import ApplyPolicy, CancelJob, DrainNode, UndrainNode
from bailiff_core.records.job_requests import JobCancelled, JobSubmitted, SubmitJob
from bailiff_core.records.node_requests import NodeDrained
from bailiff_log.keys import key_id, known_keys
from bailiff_log.signed_requests import signing_key

OPS, LATE = (bytes([number]) * 32 for number in (1, 2))
SLOW = DEFAULT_POLICY.limits.model_copy(update={"pool": DEFAULT_POLICY.limits.pool.model_copy(update={"requests_per_second": 1})})


def test_requests_that_wait_when_a_policy_names_their_key_are_taken_before_later_ones(tmp_path: Path) -> None:
    async def story() -> list[Record]:
        async with SignedPool(tmp_path) as pool:
            keys = {key_id(OPS): "ops"}
            identity = DEFAULT_POLICY.identity.model_copy(update={"keys": keys, "operators": ("ops", "late")})
            policy = DEFAULT_POLICY.model_copy(update={"identity": identity, "limits": SLOW})
            pool.request(ApplyPolicy(policy=policy), pool.root)
            await pool.until("the policy holds", lambda state: "ops" in known_keys(state).values())
            for _ in range(BURST // SECOND + 10):  # the pool's rate is used up: what follows waits
                pool.request(CancelJob(job="nothing"))
            for number in range(3):
                pool.request(DrainNode(node="n1", reason=f"{number}"), LATE)
            named = identity.model_copy(update={"keys": {**keys, key_id(LATE): "late"}})
            pool.request(ApplyPolicy(policy=policy.model_copy(update={"identity": named})), OPS)
            await pool.until("the key is known", lambda state: "late" in known_keys(state).values())
            last = pool.request(UndrainNode(node="n1"), LATE)
            await pool.until("all are answered", lambda _: last in str(pool.messages(topics.AUDIT.name)))
            return pool.records()

    records = run(story())
    offsets = places(records, key_id(LATE))
    assert len(offsets) == 4
    assert offsets == sorted(offsets)
    assert named_by_verify(records) == []


def submission(job: str, user: str | None, *, workload: bool = False) -> SubmitJob:
    pods = Workload(api_version="batch/v1", kind="Job", namespace="team-a", name=job, uid=f"{job}-0b5c3b84")
    spec = JobSpec(runtime="kubernetes", workload=pods) if workload else JobSpec(command="true", runtime="simulated")
    return SubmitJob(demand=JobDemand(job=job, user=user, tasks=(TaskGroup(gpu_milli=1000),)), spec=spec)


def with_holder(name: str, *, bridges: tuple[str, ...]) -> Policy:
    """ops is an operator, LATE the key of `name`; requests come one a second."""
    identity = DEFAULT_POLICY.identity.model_copy(
        update={"keys": {key_id(OPS): "ops", key_id(LATE): name}, "operators": ("ops", name)}
    )
    kubernetes = DEFAULT_POLICY.kubernetes.model_copy(update={"bridges": bridges})
    return DEFAULT_POLICY.model_copy(update={"identity": identity, "limits": SLOW, "kubernetes": kubernetes})


async def taken(pool: SignedPool, *, until_policy: Policy | None = None) -> list[Record]:
    """What came of twenty cancellations and two submissions for alice by the key LATE, of a job and of a workload."""
    for _ in range(BURST // SECOND + 10):  # the pool's rate is used up: what follows waits
        pool.request(CancelJob(job="nothing"))
    for _ in range(20):
        pool.request(CancelJob(job="nothing"), LATE)
    pool.request(submission("plain", "alice"), LATE)
    last = pool.request(submission("pods", "alice", workload=True), LATE)
    if until_policy is not None:
        pool.request(ApplyPolicy(policy=until_policy), OPS)
    await pool.until("all are answered", lambda _: last in str(pool.messages(topics.AUDIT.name)))
    return pool.records()


@pytest.mark.parametrize("stays", [True, False])
def test_what_a_bridge_submits_for_a_user_keeps_its_order_whatever_it_is(tmp_path: Path, stays: bool) -> None:
    """stays: whether it is still a bridge when its requests are decided."""

    async def story() -> list[Record]:
        async with SignedPool(tmp_path) as pool:
            pool.request(ApplyPolicy(policy=with_holder("bridge", bridges=("bridge",))), pool.root)
            await pool.until("the policy holds", lambda state: "bridge" in known_keys(state).values())
            return await taken(pool, until_policy=None if stays else with_holder("bridge", bridges=()))

    records = run(story())
    assert len(places(records, key_id(LATE))) == 22
    assert named_by_verify(records) == []


def test_two_submissions_of_a_signer_who_names_a_user_in_one_of_them_cannot_be_exchanged(tmp_path: Path) -> None:
    async def story() -> list[Record]:
        async with SignedPool(tmp_path) as pool:
            pool.request(ApplyPolicy(policy=with_holder("alice", bridges=("bridge",))), pool.root)
            await pool.until("the policy holds", lambda state: "alice" in known_keys(state).values())
            for job, user in (("a", "alice"), ("b", None)):
                pool.request(submission(job, user), LATE)
            await pool.until("both are there", lambda state: {"a", "b"} <= state.jobs.keys())
            return pool.records()

    records = run(story())
    assert named_by_verify(records) == []
    one, two = (record for record in records if signing_key(record) == key_id(LATE))
    assert [each.split(": ")[1] for each in named_by_verify(exchanged(records, one, two))] == ["out-of-order"]


def test_an_operator_s_action_passes_others_and_not_its_own_submission(tmp_path: Path) -> None:
    async def story() -> list[Record]:
        async with SignedPool(tmp_path) as pool:
            pool.request(ApplyPolicy(policy=with_holder("late", bridges=())), pool.root)
            await pool.until("the policy holds", lambda state: "late" in known_keys(state).values())
            for _ in range(BURST // SECOND + 10):  # the pool's rate is used up: what follows waits
                pool.request(CancelJob(job="nothing"))
            for job in ("a", "b"):
                pool.request(submission(job, None), LATE)
                pool.request(CancelJob(job=job), LATE)
            pool.request(DrainNode(node="n1"), LATE)
            await pool.until("the node is drained", lambda state: state.draining)
            return pool.records()

    records = run(story())
    own = [record for record in records if signing_key(record) == key_id(LATE)]
    assert [type(record.data) for record in own] == [JobSubmitted, JobCancelled] * 2 + [NodeDrained]
    assert named_by_verify(records) == []
    *_, cancelled, drained = own
    assert [each.split(": ")[1] for each in named_by_verify(exchanged(records, cancelled, drained))] == ["out-of-order"]


def exchanged(records: Sequence[Record], one: Record, two: Record) -> list[Record]:
    """The log with these two in each other's place."""
    place = {one.seq: two, two.seq: one}
    kept = ("seq", "time", "cycle", "cycle_end", "inputs")
    return [replace(place.get(at.seq, at), **{name: getattr(at, name) for name in kept}) for at in records]


def places(records: Sequence[Record], key: str) -> list[int]:
    """The offsets of the requests that this key signed, as recorded."""
    return [int(record.cause.rpartition("/")[2]) for record in records if signing_key(record) == key]
