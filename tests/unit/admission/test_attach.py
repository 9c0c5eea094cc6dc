"""Who may attach to which task, and what its agent may say about that."""

from typing import Any

import pytest
from tests.kits.log_builder import Story, digest

from bailiff_admission.request_handlers.reports import facts_of_report
from bailiff_bus.messages.reports import AttachEndedReport, AttachReadyReport, AttachStartedReport
from bailiff_core.admission import ReceivedRequest, admit_received
from bailiff_core.admission.jobs import MAX_ATTACHMENTS
from bailiff_core.admission.rejected import Rejected
from bailiff_core.fold.attachments import UNANSWERED_AFTER, live_attachments
from bailiff_core.records.facts import AttachEnded, AttachGranted, AttachReady, AttachStarted
from bailiff_core.records.job_requests import AttachJob

CERTIFICATE = "A" * 400
READY = {"address": "n1:7443", "fingerprint": "0" * 64}


def ask(story: Story, job: str = "low", task: int = 0, actor: str = "alice", auth: Any = "none", port: int | None = None) -> Any:
    body = AttachJob(job=job, task=task, client_certificate=CERTIFICATE, port=port)
    return admit_received(story.state, ReceivedRequest("laptop", f"a-{story.state.seq}", digest("a"), None, actor, auth, body))


def granted(story: Story) -> int:
    """The seq of a new grant."""
    (fact,) = ask(story)
    story.cycle(fact)
    return max(story.state.attachments)


def report(story: Story, kind: Any, node: str = "n1", **fields: Any) -> Any:
    number = story.state.node_numbers[node]
    about = {
        "node": node,
        "incarnation": story.state.nodes[number].incarnation,
        "number": 9,
        "job": "low",
        "attempt": 1,
        "task": 0,
    }
    return facts_of_report(story.state, kind(**{**about, **fields}))


def test_a_grant_is_for_one_running_task_on_its_node(story: Story) -> None:
    (fact,) = ask(story)
    assert (fact.job, fact.attempt, fact.task, fact.node, fact.client_certificate) == ("low", 1, 0, "n1", CERTIFICATE)
    assert isinstance(fact, AttachGranted)


@pytest.mark.parametrize(
    ("job", "task", "code"), [("low", 7, "not-running"), ("done", 0, "already-ended"), ("x", 0, "no-such-job")]
)
def test_only_a_running_task_can_be_attached_to(story: Story, job: str, task: int, code: str) -> None:
    assert ask(story, job, task).code == code


def test_only_a_port_that_the_job_declares_is_granted(story: Story) -> None:
    low = story.state.jobs["low"]
    assert ask(story, port=8888).code == "no-such-port"
    low.demand = low.demand.model_copy(update={"ports": (8888, 6006)})
    (fact,) = ask(story, port=8888)
    assert (fact.port, fact.job) == (8888, "low")
    refused = ask(story, port=22)
    assert "low does not declare port 22; it declares 8888, 6006" in refused.text
    assert ask(story)[0].port is None


def test_of_a_verified_owners_job_only_the_owner_is_granted(story: Story) -> None:
    story.state.jobs["low"].user, story.state.jobs["low"].user_verified = "ada", True
    assert isinstance(ask(story, actor="ada", auth="signed")[0], AttachGranted)
    for actor, auth in (("bob", "signed"), ("ada", "none"), ("", "none")):
        refused = ask(story, actor=actor, auth=auth)
        assert isinstance(refused, Rejected)
        assert refused.rule in ("permissions.attach", "verified-owner")


def test_an_attachment_is_on_record_from_its_grant_to_its_end_each_once(story: Story) -> None:
    at = granted(story)
    for kind, fact, fields in (
        (AttachReadyReport, AttachReady, READY),
        (AttachStartedReport, AttachStarted, {}),
        (AttachEndedReport, AttachEnded, {"reason": "detached"}),
    ):
        (found,) = report(story, kind, grant=at, **fields)
        assert isinstance(found, fact)
        story.cycle(found)
        assert report(story, kind, grant=at, **fields) == []
    assert story.state.attachments == {}


def test_a_node_says_nothing_about_grants_that_are_not_its_own(story: Story) -> None:
    at = granted(story)
    for others in ({"node": "n2"}, {"job": "done"}, {"attempt": 0}, {"task": 1}, {"grant": at + 1}):
        assert report(story, AttachReadyReport, **{"grant": at, **READY, **others}) == []


def test_attachments_of_a_job_are_bounded_and_unanswered_ones_do_not_count_for_long(story: Story) -> None:
    for _ in range(MAX_ATTACHMENTS):
        granted(story)
    assert ask(story).code == "too-many-attachments"
    story.state.now += UNANSWERED_AFTER
    assert live_attachments(story.state, "low") == []
    granted(story)
    assert len(story.state.attachments) == 1  # those that no agent has answered are forgotten
