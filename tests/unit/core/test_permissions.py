"""Who may do what to whose job: the policy's table, and what no table permits."""

import pytest

from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.identity import JOB_ACTIONS, IdentityRules, JobAction, Permissions
from bailiff_core.model.policy import DEFAULT_POLICY, Policy, Project
from bailiff_core.model.state import Job
from bailiff_core.permissions import (
    Requester,
    class_denial,
    job_denial,
    keys_denial,
    lost_permissions,
    name_denial,
    operator_denial,
    submission_denial,
)

PROJECTS = (
    Project(name="research", admins=("rita",)),
    Project(name="vision", parent="research"),
    Project(name="sales", admins=("sam",)),
)
KEYS = {"a" * 43: "ada", "b" * 43: "bob", "c" * 43: "console"}
CHANGES = tuple(action for action in JOB_ACTIONS if action != "logs")


def rules(**identity: object) -> Policy:
    given = IdentityRules.model_validate({"keys": KEYS, "operators": ("ops",), **identity})
    return DEFAULT_POLICY.model_copy(update={"identity": given, "projects": PROJECTS})


def job_of(user: str, *, verified: bool = True, project: str = "vision") -> Job:
    demand = JobDemand(job="train-1", tasks=(TaskGroup(gpu_milli=1000),))
    return Job("train-1", 1, 0, demand, "train", 50, True, True, "", project, user=user, user_verified=verified)


def signed(name: str) -> Requester:
    return Requester(name, "signed")


def rule(policy: Policy, requester: Requester, job: Job, action: JobAction = "cancel") -> str:
    found = job_denial(policy, requester, action, job)
    return "" if found is None else found.rule


@pytest.mark.parametrize("action", JOB_ACTIONS)
@pytest.mark.parametrize("who", ["ada", "rita", "ops", "root-key"])
def test_the_owner_the_projects_admin_and_operators_may(action: JobAction, who: str) -> None:
    is_owners = action == "spec" or (who, action) == ("rita", "attach")  # a command, and a terminal
    expected = f"permissions.{action}" if is_owners and who != "ada" else ""
    assert rule(rules(), signed(who), job_of("ada"), action) == expected


@pytest.mark.parametrize("action", JOB_ACTIONS)
@pytest.mark.parametrize("who", ["bob", "sam", "console/carol", "adam", "ad", ""])
def test_others_may_not_and_the_rule_is_named(action: JobAction, who: str) -> None:
    assert rule(rules(), signed(who), job_of("ada"), action) == f"permissions.{action}"


@pytest.mark.parametrize("action", CHANGES)
@pytest.mark.parametrize("who", ["ada", "rita", "ops", "root-key", ""])
def test_no_table_lets_an_unverified_request_change_a_verified_owners_job(action: JobAction, who: str) -> None:
    everybody = rules(permissions=Permissions.model_validate(dict.fromkeys(JOB_ACTIONS, ("anyone",))))
    for policy in (rules(), everybody, rules(operators=())):
        assert rule(policy, Requester(who), job_of("ada"), action) == "verified-owner"
    assert rule(everybody, Requester(who), job_of("ada"), "logs") == ""


def test_a_claimed_name_equals_the_same_claimed_name_only() -> None:
    unsigned = job_of("dora", verified=False)
    assert rule(rules(), Requester("dora"), unsigned) == ""
    for other in (Requester("bob"), Requester(""), Requester("dora/x"), signed("dora"), signed("bob")):
        assert rule(rules(), other, unsigned) == "permissions.cancel"
    assert rule(rules(), Requester(""), job_of("", verified=False)) == ""


def test_where_no_operators_are_named_everybody_is_one_except_for_what_verified_owners_own() -> None:
    nobody = rules(operators=())
    assert operator_denial(nobody, Requester("")) is None
    for anybody in (Requester(""), Requester("dora"), signed("bob")):
        assert rule(nobody, anybody, job_of("eve", verified=False)) == ""
    assert rule(nobody, signed("bob"), job_of("ada")) == "permissions.cancel"
    assert rule(nobody, signed("root-key"), job_of("ada")) == ""


def test_names_in_the_policy_count_only_if_they_are_verified() -> None:
    policy = rules(class_users={"inference": ("ada",)})
    for name, found in (
        ("ops", operator_denial(policy, Requester("ops"))),
        ("ada", class_denial(policy, Requester("ada"), "inference")),
        ("rita", submission_denial(rules(permissions=Permissions(submit=("project-admin",))), Requester("rita"), "vision")),
    ):
        assert found is not None
        assert f"{name} (not verified)" in found.reason
    assert operator_denial(policy, signed("ops")) is class_denial(policy, signed("ada"), "inference") is None
    assert operator_denial(policy, Requester("ops", "acl")) is None  # who may write to the topic is verified by its access list


def test_nobody_claims_the_name_of_a_key_without_a_signature() -> None:
    for claimed in ("ada", "ada/laptop", "console/carol", "root-key"):
        found = name_denial(rules(), Requester(claimed))
        assert found is not None
        assert found.rule == "key-holder-name"
    for free in ("dora", "adam", "", "consoles/x"):
        assert name_denial(rules(), Requester(free)) is None
    assert name_denial(rules(), signed("ada")) is None


def test_who_decides_whom_to_trust() -> None:
    assert keys_denial(rules(operators=()), signed("ada")) is not None  # everybody is an operator, but not for this
    assert keys_denial(rules(), Requester("ops")) is not None
    assert keys_denial(rules(), signed("ops")) is keys_denial(rules(), signed("root-key")) is None


def test_the_holder_of_a_key_owns_what_names_below_its_own_submitted_and_not_the_reverse() -> None:
    assert rule(rules(), signed("ada"), job_of("ada/ci")) == ""
    assert rule(rules(), signed("ada/ci"), job_of("ada")) == "permissions.cancel"


def test_a_trusted_sign_in_counts_as_the_person() -> None:
    policy = rules(sign_ins=("console",))
    assert rule(policy, signed("console/ada"), job_of("ada")) == ""
    assert rule(policy, signed("ada"), job_of("console/ada")) == ""
    assert rule(policy, signed("console/rita"), job_of("ada")) == ""
    assert rule(policy, signed("console/carol"), job_of("ada")) == "permissions.cancel"
    assert rule(policy, signed("bob/ada"), job_of("ada")) == "permissions.cancel"  # bob's key vouches for nobody
    assert rule(rules(), signed("console/ada"), job_of("ada")) == "permissions.cancel"  # the default


def test_who_submits_to_a_project_is_inherited_and_admins_may_always() -> None:
    projects = (Project(name="research", admins=("rita",), submitters=("ada",)), Project(name="vision", parent="research"))
    policy = rules().model_copy(update={"projects": projects})
    for who in ("ada", "rita", "ops"):
        assert submission_denial(policy, signed(who), "vision") is None
    found = submission_denial(policy, signed("bob"), "vision")
    assert found is not None
    assert (found.rule, "research" in found.reason) == ("project-submitters", True)
    assert submission_denial(policy, signed("bob"), None) is None
    own = (*projects[:1], Project(name="vision", parent="research", submitters=("bob",)))
    assert submission_denial(policy.model_copy(update={"projects": own}), signed("bob"), "vision") is None
    assert submission_denial(policy.model_copy(update={"projects": own}), signed("ada"), "vision") is not None


def test_submission_for_operators_only() -> None:
    closed = rules(permissions=Permissions(submit=("operator",)))
    found = submission_denial(closed, signed("ada"), "vision")
    assert found is not None
    assert found.rule == "permissions.submit"
    assert submission_denial(closed, signed("ops"), "vision") is None


ADA = signed("ada")


@pytest.mark.parametrize(
    ("identity", "requester", "expected"),
    [
        ({"keys": {}, "operators": ()}, ADA, ["sign requests, as it names no key of yours"]),
        ({"keys": {"n" * 43: "ada"}}, ADA, []),  # rotated
        ({"operators": ("ops", "ada")}, ADA, []),
        ({"operators": ("bob",)}, signed("ops"), ["send the requests of operators", "decide which keys are trusted"]),
        ({"operators": ("bob",)}, Requester("root-key", "signed"), []),
        ({"class_users": {"inference": ("bob",)}}, ADA, ["use the class inference"]),
        ({"permissions": {"cancel": ("operator",)}}, ADA, ["cancel your jobs"]),
        ({"permissions": {"submit": ("operator",)}}, ADA, ["submit jobs without a project"]),
        ({"accept": ("signed",)}, Requester("carol"), ["send requests, as it accepts only signed ones"]),
        ({"accept": ("signed",)}, ADA, []),
    ],
)
def test_what_a_requester_loses_under_another_policy(
    identity: dict[str, object], requester: Requester, expected: list[str]
) -> None:
    found = lost_permissions(rules(), rules(**identity), requester)
    assert [what for what in found if "the project" not in what] == expected


def test_projects_and_classes_that_only_one_policy_has_are_no_loss() -> None:
    fewer = rules().model_copy(update={"projects": PROJECTS[:2]})
    assert lost_permissions(rules(), fewer, ADA) == lost_permissions(fewer, rules(), ADA) == []
    closed = rules().model_copy(update={"projects": (Project(name="research", submitters=("bob",)), *PROJECTS[1:])})
    lost = ["submit jobs to the project research", "submit jobs to the project vision"]
    assert lost_permissions(rules(), closed, ADA) == lost


def test_the_first_operators_of_a_pool_exclude_all_others() -> None:
    open_pool = rules(operators=(), keys={})
    named = rules(operators=("ada",), keys=KEYS)
    assert lost_permissions(open_pool, named, Requester("ada")) == []  # signs from then on
    assert "send the requests of operators" in lost_permissions(open_pool, named, Requester("carol"))
