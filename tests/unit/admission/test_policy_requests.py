"""Policy requests: refused if made from an older policy, or if they remove a project in use."""

from tests.kits.log_builder import policy

from bailiff_core.admission import ReceivedRequest, admit_received
from bailiff_core.admission.rejected import Rejected
from bailiff_core.model.policy import Policy
from bailiff_core.records.pool_requests import ApplyPolicy


def rules(*projects: str) -> Policy:
    listed = [{"name": name} for name in projects]
    return policy(preemption={"actions": ["allocate", "preempt"], "scope": "pool"}, projects=listed)


def ask(story, body):
    return admit_received(story.state, ReceivedRequest("laptop", "q-1", "0" * 64, None, "alice", "none", body))


def refused(story, body, code):
    found = ask(story, body)
    assert isinstance(found, Rejected)
    assert found.code == code
    return found.reason


def test_a_policy_made_from_an_older_one_is_refused(story):
    made_from = story.state.policy_revision
    assert isinstance(ask(story, ApplyPolicy(policy=rules(), expected_revision=made_from)), list)
    story.apply_policy(rules())
    reason = refused(story, ApplyPolicy(policy=rules(), expected_revision=made_from), "policy-changed")
    assert f"the policy in force is #{story.state.policy_revision}, this one is based on #{made_from}" in reason
    assert isinstance(ask(story, ApplyPolicy(policy=rules("vision"), expected_revision=story.state.policy_revision)), list)


def test_a_policy_that_is_in_force_is_not_applied_again(story):
    """Also where it was made from an older one: another operator has applied the same."""
    made_from = story.state.policy_revision
    story.apply_policy(rules().complete())
    for revision in (None, made_from, story.state.policy_revision):
        reason = refused(story, ApplyPolicy(policy=rules(), expected_revision=revision), "already-in-force")
        assert reason == f"this policy is in force already, since #{story.state.policy_revision}"
    assert isinstance(ask(story, ApplyPolicy(policy=rules(), enforce=True)), list)


def test_a_policy_is_enforced_only_where_that_is_asked_for(story):
    assert [fact.enforce for fact in ask(story, ApplyPolicy(policy=rules()))] == [False]
    assert [fact.enforce for fact in ask(story, ApplyPolicy(policy=rules(), enforce=True))] == [True]


def test_a_project_that_is_in_use_stays(story):
    story.apply_policy(rules("vision", "speech"))
    story.runs("eyes", gpus=1, project="vision")
    reason = refused(story, ApplyPolicy(policy=rules("speech")), "project-in-use")
    assert "'eyes' is in the project 'vision', which is missing in the new policy" in reason
    story.ends("eyes")
    assert isinstance(ask(story, ApplyPolicy(policy=rules("speech"))), list)
