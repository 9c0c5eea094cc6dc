"""Findings of `bailiff doctor` on a policy: disabled actions and likely mistakes."""

from typing import Any

import pytest
from tests.unit.client.kit import MINUTE, LogWriter

from bailiff.doctor.checks import policy_checks
from bailiff.policy.policy_findings import all_findings
from bailiff.policy.quota_findings import quota_findings, unstated_quotas
from bailiff.render.serializers.projects import capacity_of
from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_core.model.resource_vector import ResourceVector


def pool_with(**parts: Any) -> LogWriter:
    log_writer = LogWriter()
    data = DEFAULT_POLICY.model_dump(mode="json")
    log_writer.begin(Policy.model_validate({**data, **parts}, strict=False).complete())
    log_writer.node("gpu-01")
    return log_writer


def test_the_default_policy_has_no_findings() -> None:
    (check,) = policy_checks(pool_with().state)
    assert check["status"] == "ok"
    assert (
        check["found"]
        == "in force since #1, consolidate is disabled (preemption.max_migrations is 0), all other actions are enabled"
    )


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        (["allocate", "consolidate", "reclaim"], ["preempt is disabled: no job preempts another by priority"]),
        (["allocate", "preempt"], ["consolidate is disabled: no job is migrated to defragment nodes"]),
        (["consolidate", "reclaim", "preempt"], ["allocate is disabled: no job is placed, even on free resources"]),
    ],
)
def test_disabled_actions_are_named(actions: list[str], expected: list[str]) -> None:
    checks = policy_checks(pool_with(preemption={"actions": actions}).state)
    assert [check["found"] for check in checks] == expected
    assert all(check["status"] == "warn" and "preemption.actions" in check["advice"] for check in checks)


def test_disabled_reclaim_is_reported_only_with_projects() -> None:
    actions = {"actions": ["allocate", "consolidate", "preempt"]}
    assert not all_findings(pool_with(preemption=actions).state)
    found = all_findings(pool_with(preemption=actions, projects=[{"name": "a", "quota": {"gpus": 4}}]).state)
    assert [finding.found for finding in found] == [
        "reclaim is disabled: projects over their quota keep borrowed resources until their jobs end"
    ]


CLASSES = [{"name": "train", "value": 1, "preemptible": False, "preemption_policy": "Never", "global_default": True}]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"protections": {"excluded": [{"tier": "gold"}]}}, "by labels, which no job may claim: they protect none"),
        ({"claims": {"non_preemptible": True}}, "every job may claim not to be preemptible"),
        ({"claims": {"grace": "2h"}}, "a job may claim a grace of 2h"),
        ({"projects": [{"name": "a"}]}, "no project has a GPU quota"),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 6}}, {"name": "b", "quota": {"gpus": 4}}]},
            "quotas add up to 10 GPUs, the pool has 8 GPUs",
        ),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 2}}, {"name": "b", "parent": "a", "quota": {"gpus": 3}}]},
            "quotas below a add up to 3 GPUs; its own quota is 2 GPUs",
        ),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 4}, "limit": {"gpus": 2}}]},
            "project a has a GPU limit below its quota: it can use 2 GPUs of 4 GPUs",
        ),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 1, "cpus": -1}, "limit": {"cpus": 2}}]},
            "project a has a CPU limit below its quota: it can use 2 CPUs of no bound",
        ),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 1, "cpus": 2}}, {"name": "b", "parent": "a", "quota": {"cpus": 3}}]},
            "quotas below a add up to 3 CPUs; its own quota is 2 CPUs",
        ),
        (
            {"projects": [{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "over_quota_weight": 0}]},
            "project b has neither a GPU quota nor a weight",
        ),
        ({"identity": {"class_users": {"inference": []}}}, "no user may use the class inference"),
        ({"identity": {"class_users": {"infrence": ["x"]}}}, "names the class infrence, which does not exist"),
        ({"priority_classes": CLASSES}, "no class is preemptible"),
        ({"priority_classes": CLASSES}, "every class has preemption_policy Never"),
        ({"protections": {"budgets": [{"name": "web", "max_disruptions": 0}]}}, "budget web allows no disruption of its jobs"),
        ({"protections": {"stale_gang": None}}, "keeps its resources indefinitely"),
        ({"topologies": [{"name": "racks", "levels": ["zone", "rack"]}]}, "topology racks: no node has the label rack,"),
    ],
)
def test_likely_mistakes_in_a_policy_are_reported(parts: dict[str, Any], expected: str) -> None:
    found = all_findings(pool_with(**parts).state)
    assert any(expected in finding.found for finding in found), found
    assert all(finding.advice for finding in found)


TREE = [
    {"name": "a", "quota": {"gpus": 2, "cpus": 9}},
    {"name": "b", "quota": {"gpus": 4}},
    {"name": "c", "parent": "b", "quota": {"gpus": 1, "cpus": 1, "memory": -1}},
    {"name": "d", "parent": "b", "quota": {"gpus": -1}},
]


def test_quotas_of_any_resource_that_exceed_the_pool_are_reported_where_the_pool_is_known() -> None:
    policy = pool_with(projects=TREE).state.rules
    assert not list(quota_findings(policy))
    (found,) = quota_findings(policy, ResourceVector(8000, 8000, 2**40))
    assert found.found.startswith("quotas add up to 9 CPUs, the pool has 8 CPUs: they cannot all be satisfied at once")
    assert "--cpu" in found.advice


def test_quotas_of_a_model_that_exceed_its_cards_and_models_that_the_pool_has_not_are_reported() -> None:
    projects = [
        {"name": "a", "quota": {"models": {"H100-80GB": 6}}},
        {"name": "b", "quota": {"models": {"H100-80GB": 4, "h100": 1}}, "limit": {"models": {"H100-80GB": 3}}},
    ]
    state = pool_with(projects=projects).state
    found = [each.found for each in quota_findings(state.rules, capacity_of(state))]
    assert "quotas or limits name h100, of which the pool has no device" in found
    assert "project b has a H100-80GB limit below its quota: it can use 3 GPUs of 4 GPUs" in found
    assert any(each.startswith("quotas of H100-80GB add up to 10 GPUs, the pool has 8 GPUs") for each in found)


def test_each_project_that_states_no_quota_of_cpus_or_memory_is_told_what_it_has() -> None:
    state = pool_with(projects=TREE).state
    policy = state.rules
    assert capacity_of(state).gpu_milli == 8000
    part, unless = "as large a part of the pool's as {} GPUs are of its GPUs", "; in a pool without GPUs an equal part by weight"
    assert unstated_quotas(policy) == [
        f"project a states no quota of memory: {part.format(2)}{unless}",
        f"project b states no quota of CPU and memory: {part.format(4)}{unless}",
        "project d states no quota of CPU and memory: no bound, as of the GPUs",
    ]
    assert unstated_quotas(policy, ResourceVector(8000, 64_000, 2**40)) == [
        f"project a states no quota of memory: {part.format(2)} (256GiB)",
        f"project b states no quota of CPU and memory: {part.format(4)} (32 CPUs, 512GiB)",
        "project d states no quota of CPU and memory: no bound, as of the GPUs",
    ]
    by_weight = "an equal part by weight, as the pool has no GPUs"
    assert unstated_quotas(policy, ResourceVector(0, 64_000, 2**40)) == [
        f"project a states no quota of memory: {by_weight} (512GiB)",
        f"project b states no quota of CPU and memory: {by_weight} (55 CPUs, 512GiB)",
        f"project d states no quota of CPU and memory: {by_weight} (54 CPUs, 512GiB)",
    ]


def test_jobs_without_a_project_are_counted() -> None:
    log_writer = pool_with(projects=[{"name": "a", "quota": {"gpus": 4}}])
    log_writer.submit("stray", gpus=1)
    assert [finding.found for finding in all_findings(log_writer.state)] == [
        "1 job without a project: they have no quota and only borrow"
    ]


def test_a_missed_start_slo_is_reported() -> None:
    web = {"name": "web", "value": 90, "preemptible": True, "start_slo": {"p95": "30s", "p99": "10m"}}
    log_writer = pool_with(priority_classes=[*DEFAULT_POLICY.model_dump(mode="json")["priority_classes"], web])
    log_writer.submit("first", gpus=8, class_="web")
    log_writer.start("first")
    log_writer.submit("second", gpus=8, class_="web")
    log_writer.after(2 * MINUTE).submit("third", gpus=8)
    (found,) = all_findings(log_writer.state)
    assert found.found == "class web: 1 of 2 jobs started later, or are pending for longer; 95 of 100 should start within 30s"


@pytest.mark.parametrize(
    ("identity", "found"),
    [
        ({}, ["no operators are named: everybody who can send requests may change the policy and drain nodes"]),
        ({"operators": ["ada", "bob"]}, ["operators without a key: bob; an operator's requests must be signed"]),
        ({"operators": ["ada/laptop"]}, []),
        ({"operators": ["bob"], "sign_ins": ["console"]}, []),
    ],
)
def test_operators_who_cannot_sign_are_named(identity: dict[str, Any], found: list[str]) -> None:
    keys = {"a" * 43: "ada", "c" * 43: "console"}
    state = pool_with(identity={"keys": keys, **identity}).state
    assert [each.found for each in all_findings(state) if "operators" in each.found] == found


def test_claims_without_a_grant_are_named() -> None:
    log_writer = pool_with()
    log_writer.submit("firm", 1, preemptible=False)
    (finding,) = all_findings(log_writer.state)
    assert finding.found == "1 job with preemptible: false, which is not granted: firm"


def test_a_policy_of_before_claims_is_to_be_applied_again() -> None:
    log_writer = pool_with()
    log_writer.state.policy = log_writer.state.rules.model_copy(update={"claims": None})
    (finding,) = all_findings(log_writer.state)
    assert "before claims were limited" in finding.found
