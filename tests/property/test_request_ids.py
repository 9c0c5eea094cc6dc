"""An id is its signer's: whatever others send under the same source and id, the owner's request is judged as if they had not."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.kits.builders import Sketch

from bailiff_core.admission import ReceivedRequest, Rejected, admit_received
from bailiff_core.decision_cycle import fact_record
from bailiff_core.fold import apply
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.records.job_requests import SubmitJob


@dataclass(frozen=True)
class Sent:
    sender: str
    auth: str
    source: str
    id: str
    content: int


SENDERS = [("ada", "signed"), ("eve", "signed"), ("ada", "none"), ("eve", "acl"), ("", "none")]
requests = st.builds(
    lambda sender, source, id, content: Sent(*sender, source, id, content),  # noqa: A006
    st.sampled_from(SENDERS),
    st.sampled_from(["/laptop", "/laptop/1"]),
    st.sampled_from(["1", "/11"]),
    st.integers(0, 2),
)


def outcomes(sent: list[Sent]) -> list[str]:
    """What becomes of each: accepted, a repeat, or the code of its rejection. Each content is a job of its sender's."""
    state = Sketch().state
    found = []
    for each in sent:
        job = f"{each.sender or 'nobody'}-{each.auth}-{each.source.strip('/')}-{each.id.strip('/')}-{each.content}".replace(
            "/", "."
        )
        group = TaskGroup(gpu_milli=1000, cpu_milli=1, memory_bytes=1)
        body = SubmitJob(demand=JobDemand(job=job, tasks=(group,)), spec=JobSpec(command="true"))
        digest = f"{hash_of(job):064x}"
        asked = ReceivedRequest(each.source, each.id, digest, None, each.sender, each.auth, body)
        facts = admit_received(state, asked)
        found.append(facts.code if isinstance(facts, Rejected) else "accepted" if facts else "repeat")
        for fact in [] if isinstance(facts, Rejected) else facts:
            apply(state, fact_record(state, fact, state.cycle + 1, state.now, actor=each.sender, auth=each.auth))
    return found


def hash_of(text: str) -> int:
    return int.from_bytes(text.encode()[-30:], "big")


@given(st.lists(requests, max_size=12), st.sampled_from(["ada", "eve"]))
def test_nobody_can_use_up_a_signers_ids(sent, owner):
    own = [(at, each) for at, each in enumerate(sent) if (each.sender, each.auth) == (owner, "signed")]
    among_others = outcomes(sent)
    assert [among_others[at] for at, _ in own] == outcomes([each for _, each in own])


@given(st.lists(requests, max_size=12))
def test_an_unsigned_id_is_whoevers_comes_first_and_none_has_two_effects(sent):
    first = {}
    for each, outcome in zip(sent, outcomes(sent), strict=True):
        key = (each.sender if each.auth == "signed" else "", each.source, each.id)
        known = first.setdefault(key, each)
        assert outcome == ("accepted" if known is each else "repeat" if known == each else "id-reused")
