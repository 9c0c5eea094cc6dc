"""Certificates renew themselves: a CronJob, with the right to restart the services that have new ones, and no other right."""

import json

from tests.kits.helm import of_kind, pod_templates, rendered

from bailiff.security.kubernetes_keys import CERTIFIED


def test_a_cron_job_renews_certificates_as_the_setup_job_makes_them() -> None:
    objects = rendered()

    [renewal], [setup] = (
        of_kind(objects, "CronJob"),
        [each for each in of_kind(objects, "Job") if "setup" in each["metadata"]["name"]],
    )
    pod = renewal["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [keys], [first] = pod["containers"], setup["spec"]["template"]["spec"]["containers"]
    assert keys == {**first, "args": [*first["args"], "--restart"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    [rights] = [each for each in of_kind(objects, "Role") if each["metadata"]["name"].endswith("-renewal")]
    [rule] = rights["rules"]
    assert (rule["resources"], rule["verbs"]) == (["statefulsets"], ["patch"])
    assert {*rule["resourceNames"]} == {f"bailiff-{role}" for role in CERTIFIED}


def test_who_keeps_the_root_key_elsewhere_has_no_renewal() -> None:
    assert not of_kind(rendered(["keys.generate=false"]), "CronJob")
    assert not of_kind(rendered(["keys.renewal="]), "CronJob")


def test_agents_may_evict_where_disruption_budgets_are_respected_only() -> None:
    def may_evict(*settings: str) -> bool:
        rules = [rule for role in of_kind(rendered(settings), "ClusterRole") for rule in role["rules"]]
        return any("pods/eviction" in rule["resources"] for rule in rules)

    assert not may_evict()
    assert may_evict("agents.mayEvict=true")


BOTH_AGENTS = ("agents.apiOnly.enabled=true", "agents.apiOnly.selector.type=virtual-kubelet")


def test_agents_may_open_shells_in_the_namespace_of_jobs_alone_and_only_if_told_to() -> None:
    def executing(*settings: str) -> set[tuple[str, str]]:
        roles = of_kind(rendered([*settings, *BOTH_AGENTS]), "Role", "ClusterRole")
        able = [role for role in roles if any("pods/exec" in rule["resources"] for rule in role["rules"])]
        return {(role["kind"], role["metadata"].get("namespace", "")) for role in able}

    def told(*settings: str) -> list[bool]:
        pods = [each for name, each in pod_templates(rendered([*settings, *BOTH_AGENTS])).items() if "agent" in name]
        return ["BAILIFF_KUBERNETES__SHELLS" in json.dumps(pod) for pod in pods]

    assert executing() == set()
    assert told() == [False, False]
    assert executing("agents.mayOpenShells=true") == {("Role", "bailiff-jobs")}
    assert told("agents.mayOpenShells=true") == [True, True]
