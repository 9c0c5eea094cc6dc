"""What a Job's own policies say holds: its real controller, on a real kubelet."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from tests.kubernetes.bridge_system import Users, all_running

from bailiff_core.model.state import Job
from bailiff_core.records.decisions import PreemptionDecided
from bailiff_kubernetes import names
from bailiff_kubernetes.resources import condition_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


def job(users: Users, name: str, pods: int, script: str, **spec: Any) -> dict[str, Any]:
    """Its pods run this script with one GPU each; `$JOB_COMPLETION_INDEX` is their number."""
    found = copy.deepcopy(dict(users.job(name, pods=pods, gpus=1)))
    del found["spec"]["podFailurePolicy"]
    found["spec"] |= spec
    found["spec"]["template"]["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", script]
    return found


async def until_condition(users: Users, name: str, kind: str) -> Mapping[str, Any]:
    """The Job's status, once it has this condition."""
    found: dict[str, Any] = {}

    async def has_it() -> bool:
        found.update(users.cluster.get("job", name, "-n", users.namespace))
        return (condition_of(found, kind) or {}).get("status") == "True"

    await users.watch.until_true(f"{name} is {kind}", has_it)
    status: Mapping[str, Any] = found["status"]
    return status


def jobs_of(users: Users, name: str) -> list[Job]:
    """Bailiff's jobs of the Job's pods, by index."""
    found = (job for job in users.watch.state.jobs.values() if job.demand.labels.get("kubernetes/namespace") == users.namespace)
    mine = (job for job in found if job.demand.labels["kubernetes/name"].startswith(f"{name}-"))
    return sorted(mine, key=lambda job: (job.demand.labels["kubernetes/name"], job.seq))


async def test_an_index_that_fails_as_often_as_it_may_stops_no_other(kubelet_users: Users) -> None:
    users = kubelet_users
    users.apply(job(users, "sweep", 3, '[ "$JOB_COMPLETION_INDEX" != 1 ]', backoffLimitPerIndex=1))
    status = await until_condition(users, "sweep", "Failed")
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,2", "1")
    ends = [(0, "succeeded"), (1, "failed"), (1, "failed"), (2, "succeeded")]

    def all_ended(_: object) -> bool:
        found = jobs_of(users, "sweep")
        return [(int(job.demand.labels["kubernetes/name"][-1]), job.phase) for job in found] == ends

    await users.watch.until("each attempt at an index was a job", all_ended)


async def test_a_job_ends_when_the_indexes_have_succeeded_that_its_policy_asks_for(kubelet_users: Users) -> None:
    users, script = kubelet_users, '[ "$JOB_COMPLETION_INDEX" = 0 ] && exit 0; trap "exit 143" TERM; sleep 3000 & wait'
    users.apply(job(users, "lead", 2, script, successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    status = await until_condition(users, "lead", "Complete")
    assert status["completedIndexes"] == "0"
    ended = await users.until_phase("lead", "succeeded", "cancelled")
    assert (ended.attempt, ended.request_reason) == (1, "the Job has completed"), "what its policy ends is not started anew"


async def test_a_pod_that_is_replaced_only_after_its_end_is_preempted_and_comes_back(kubelet_users: Users) -> None:
    users = kubelet_users
    train = job(users, "train", 1, "trap 'exit 143' TERM; sleep 3000 & wait", podReplacementPolicy="Failed", backoffLimit=0)
    train["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 8
    users.apply(train)
    await users.until_pods("job-name=train", "it runs", all_running(1))
    first = await users.until_phase("train", "running")
    users.apply(users.job("urgent", pods=1, gpus=8, **{names.PRIORITY_CLASS: "inference"}))
    await users.until_phase("urgent", "running")
    users.kubectl("delete", "job", "urgent", "--wait=false")
    await users.watch.until(
        "it is back", lambda state: (state.jobs[first.id].attempt, state.jobs[first.id].phase) == (2, "running")
    )
    status = users.cluster.get("job", "train", "-n", users.namespace)["status"]
    assert status.get("failed", 0) == 0
    decided = [fact for fact in users.watch.facts(PreemptionDecided) for victim in fact.victims if victim.job == first.id]
    assert len(decided) == 1
