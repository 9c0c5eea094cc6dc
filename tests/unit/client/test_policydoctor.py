"""What the doctor says of a policy: what is switched off, and what can hardly be meant."""

from typing import Any

import pytest
from tests.unit.client.kit import MINUTE, Scribe

from bailiff.client.doctor import policy_checks
from bailiff.policy.policy_findings import oddities
from bailiff_core.model.policy import DEFAULT_POLICY, Policy


def pool_with(**parts: Any) -> Scribe:
    scribe = Scribe()
    data = DEFAULT_POLICY.model_dump(mode="json")
    scribe.begin(Policy.model_validate({**data, **parts}, strict=False))
    scribe.node("gpu-01")
    return scribe


def test_a_plain_policy_is_fine() -> None:
    (check,) = policy_checks(pool_with().state)
    assert check["status"] == "ok"
    assert (
        check["found"]
        == "in force since #1, all actions are enabled; consolidate migrates no jobs (preemption.max_migrations is 0)"
    )


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["allocate", "consolidate", "reclaim"], ["preempt is disabled: no job displaces another one by priority"]),
        (["allocate", "preempt"], ["consolidate is disabled: no job is moved to make room in one piece"]),
        (["consolidate", "reclaim", "preempt"], ["allocate is disabled: no job is ever placed, though there be room"]),
    ],
)
def test_verbs_that_are_off_are_named(actions: list[str], expected: list[str]) -> None:
    checks = policy_checks(pool_with(preemption={"actions": actions}).state)
    assert [check["found"] for check in checks] == expected
    assert all(check["status"] == "warn" and "preemption.actions" in check["advice"] for check in checks)


def test_reclaim_that_is_off_matters_where_there_are_projects() -> None:
    actions = {"actions": ["allocate", "consolidate", "preempt"]}
    assert not oddities(pool_with(preemption=actions).state)
    found = oddities(pool_with(preemption=actions, projects=[{"name": "a", "quota": {"gpus": 4}}]).state)
    assert [oddity.found for oddity in found] == [
        "reclaim is disabled: projects over their quota keep what they borrowed until their jobs end"
    ]


CLASSES = [{"name": "train", "value": 1, "preemptible": False, "preemption_policy": "Never", "global_default": True}]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"projects": [{"name": "a"}]}, "no project has a quota of GPUs"),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 6}}, {"name": "b", "quota": {"gpus": 4}}]},
            "quotas add up to 10 GPUs, the pool has 8 GPUs",
        ),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 2}}, {"name": "b", "parent": "a", "quota": {"gpus": 3}}]},
            "quotas below a add up to 3 GPUs, it has 2 GPUs itself",
        ),
        ({"projects": [{"name": "a", "quota": {"gpus": 4}, "limit": {"gpus": 2}}]}, "project a has a GPUs limit below its quota"),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "over_quota_weight": 0}]},
            "project b has neither a GPU quota nor a weight",
        ),
        ({"identity": {"class_users": {"inference": []}}}, "no user may use the class inference"),
        ({"identity": {"class_users": {"infrence": ["x"]}}}, "names the class infrence, which does not exist"),
        ({"priority_classes": CLASSES}, "no class is preemptible"),
        ({"priority_classes": CLASSES}, "every class has preemption_policy Never"),
        ({"protections": {"budgets": [{"name": "web", "max_disruptions": 0}]}}, "budget web allows no disruption of its jobs"),
        ({"protections": {"stale_gang": None}}, "keeps its room for ever"),
        ({"topologies": [{"name": "racks", "levels": ["zone", "rack"]}]}, "topology racks: no node has the label rack,"),
    ],
)
def test_what_can_hardly_be_meant_is_told(parts: dict[str, Any], expected: str) -> None:
    found = oddities(pool_with(**parts).state)
    assert any(expected in oddity.found for oddity in found), found
    assert all(oddity.advice for oddity in found)


def test_jobs_without_a_project_are_counted() -> None:
    scribe = pool_with(projects=[{"name": "a", "quota": {"gpus": 4}}])
    scribe.submit("stray", gpus=1)
    assert [oddity.found for oddity in oddities(scribe.state)] == ["1 job without a project: they have no quota and only borrow"]


def test_a_class_that_does_not_start_as_soon_as_it_promises_is_told() -> None:
    web = {"name": "web", "value": 90, "preemptible": True, "start_slo": {"p95": "30s", "p99": "10m"}}
    scribe = pool_with(priority_classes=[*DEFAULT_POLICY.model_dump(mode="json")["priority_classes"], web])
    scribe.submit("first", gpus=8, class_="web")
    scribe.start("first")
    scribe.submit("second", gpus=8, class_="web")
    scribe.after(2 * MINUTE).submit("third", gpus=8)
    (found,) = oddities(scribe.state)
    assert found.found == "class web: 1 of 2 jobs started later, or are pending for longer; 95 of 100 should start within 30s"
