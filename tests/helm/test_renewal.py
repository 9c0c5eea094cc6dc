"""Certificates renew themselves: a CronJob, with the right to restart the services that have new ones, and no other right."""

from tests.kits.helm import of_kind, rendered

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
