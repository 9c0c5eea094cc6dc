"""Whoever judges a request judges it alike: admission, the console's preview, a policy's effects, plan and simulation.

Every type of request, on histories with every feature. Left out is what only admission knows: who asks (others
assume that they may), the private part of a job, keys and signatures, and a loss of records.
"""

from collections import Counter
from functools import cache
from random import Random

import pytest
from tests.kits.log_builder import Story
from tests.property.extremes import extreme_message
from tests.property.rich_stories import Rich

from bailiff.policy.policy_effects import policy_effects
from bailiff_admission.input_decoder import InputDecoder
from bailiff_admission.liveness import Liveness
from bailiff_bus import topics
from bailiff_bus.envelope import wrap
from bailiff_bus.port import Message
from bailiff_console.actions.previews import preview
from bailiff_console.actions.request_types import KINDS
from bailiff_core.admission import Context, Rejected
from bailiff_core.model.job_spec import JobSpec
from bailiff_core.model.state import PoolState
from bailiff_core.permissions import Requester
from bailiff_core.plan.whatif import what_if
from bailiff_core.records import facts
from bailiff_core.records.payload import Fact
from bailiff_core.records.request import RECORDS, RequestBody, RequestFact, RequestId
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_sim.intake import Intake

HISTORIES, CYCLES, REQUESTS = 3, 30, 8
SPEC = JobSpec(command="true", runtime="simulated")
ONLY_ADMISSION_KNOWS = {"not-permitted", "bad-signature", "nothing-lost"}
REPLACED = {"unknown-project", "no-project", "no-such-job"}
"""For a submission: a simulation takes projects of its own policy, and does without dependencies on jobs that do not exist."""


@cache
def history(seed: int) -> Story:
    rich = Rich(Random(seed), lambda _: None)
    rich.play(CYCLES)
    return rich.story


def admitted(story: Story, body: RequestBody) -> Fact | Rejected | None:
    """What admission makes of the message; None if it is none, such as one that is too large."""
    clock = ClockAndIds(wall=lambda: 0, boot=lambda: 0, random_bytes=lambda: b"\x01" * 16)
    decoder = InputDecoder(story.state.pool, True, frozenset({story.state.pool}), clock, Liveness(clock))
    headers, value = wrap(body, source="/agree", id="a-1", pool=story.state.pool, actor="ada", time_us=story.time)
    found = decoder.read(story.state, Message(topics.REQUESTS.name, 0, 0, story.time, b"", headers, value))
    if found.rejected is not None:
        return found.rejected
    return found.facts[0]


def in_simulation(state: PoolState, body: RequestBody, outcome: Fact | Rejected) -> Fact | str:
    """The fact, or the code of its rejection, when a simulation replays the record of the request."""
    request = RequestId(source="/agree", id="a-1", digest="0" * 64)
    if not isinstance(outcome, Rejected):
        record = outcome
    elif isinstance(body, facts.SubmitJob):
        record = facts.JobSubmitted(request=request, demand=body.demand, spec_digest="0" * 64)
    else:
        where = {"attempt": 1, "node": "n0"} if isinstance(body, facts.AttachJob) else {}
        record = Context(state, Requester(""), request).record(body, **where)
    taken = Intake(state).take(record)
    return taken.code if isinstance(taken, facts.InputRejected) else taken


def agree(state: PoolState, body: RequestBody, outcome: Fact | Rejected) -> None:
    code = outcome.code if isinstance(outcome, Rejected) else ""
    replaced = isinstance(body, facts.SubmitJob) and code in REPLACED
    if issubclass(RECORDS[type(body)], RequestFact) and not replaced:
        assert in_simulation(state, body, outcome) == (code or outcome)
    if isinstance(body, facts.SubmitJob):
        planned = what_if(state, body.demand, state.now)
        assert (planned.outcome == "rejected", planned.reason if code else "") == (bool(code), getattr(outcome, "text", ""))
    if isinstance(body, facts.ApplyPolicy):
        assert policy_effects(state, body.policy).rejected == getattr(outcome, "text", "")
    if body.VERB in KINDS and _names_what_exists(state, body):
        errors = preview(state, Requester("ada"), body, state.now).errors
        assert errors == ([outcome.text] if isinstance(outcome, Rejected) else [])


def _names_what_exists(state: PoolState, body: RequestBody) -> bool:
    """Else the console answers 404."""
    job, node = getattr(body, "job", None), getattr(body, "node", None)
    return job in (None, *state.jobs) and (node in (None, *state.node_numbers) or isinstance(body, facts.MigrateJob))


@pytest.mark.parametrize("kind", RECORDS, ids=[kind.__name__ for kind in RECORDS])
def test_whoever_judges_a_request_judges_it_alike(kind: type[RequestBody]) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(HISTORIES):
        story, random = history(seed), Random(f"{kind.TYPE}/{seed}")
        for _ in range(REQUESTS):
            body = extreme_message(kind, story.state, random)
            assert body is None or isinstance(body, RequestBody)
            if body is None:
                continue
            changed: dict[str, object] = {"vouched_by": None}
            if isinstance(body, facts.SubmitJob):
                changed |= {"spec": SPEC, "demand": body.demand.model_copy(update={"user": None})}
            if isinstance(body, facts.ApplyPolicy):
                changed |= {"expected_revision": None}
            body = body.model_copy(update=changed)
            outcome = admitted(story, body)
            if outcome is None:
                continue
            outcomes[outcome.code if isinstance(outcome, Rejected) else "admitted"] += 1
            if not isinstance(outcome, Rejected) or outcome.code not in ONLY_ADMISSION_KNOWS:
                agree(story.state, body, outcome)
    assert outcomes
