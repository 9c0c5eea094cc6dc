"""Explanations of `bailiff explain` as data with a published schema, computed from a log."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict

from bailiff.audit.log_positions import Point
from bailiff.client.answers import not_found
from bailiff.client.errors import ClientError, ExitCode, NodeNotFound, NotFound
from bailiff.render.record_text.lines import sentence
from bailiff_bus.port import Message
from bailiff_core import explain as core
from bailiff_core.engine import LOGIC
from bailiff_core.explain.candidate_report import Candidate, candidates
from bailiff_core.explain.counterfactual import Counterfactual, NextVictims, counterfactual, next_victims
from bailiff_core.explain.device import DeviceAtTime
from bailiff_core.explain.sentences import clock
from bailiff_core.explain.victims import Condition
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, Wire, decisions, decode
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.subjects import jobs_of
from bailiff_core.victims.search_again import Searched
from bailiff_log.chain_verifier import ChainVerifier

from .outcome import Outcome

PROPOSAL, REQUEST = (kind.type_name().encode() for kind in (ProposalReceived, decisions.PreemptionRequested))
QUESTIONS: dict[type, str] = {
    decisions.PreemptionRequested: "Which job does not fit?",
    decisions.JobPending: "Why is it pending?",
    decisions.EvictionDecided: "Why is it evicted?",
    decisions.MigrationDecided: "Why is it evicted?",
    decisions.MigrationRefused: "Why is it not migrated?",
}
Read = Callable[[], AsyncGenerator[Message, None]]
Decision = decisions.PreemptionDecided | decisions.PreemptionRefused


class CitedSentence(BaseModel):
    """One sentence, and the records that it cites."""

    text: str
    seqs: tuple[int, ...]


class ExplainedSection(BaseModel):
    """A question and its answers."""

    question: str
    sentences: tuple[CitedSentence, ...]


class NodeAtTime(BaseModel):
    """What was on a node's GPUs at a time (µs), after the record `seq`."""

    node: str
    time: int
    seq: int
    devices: tuple[DeviceAtTime, ...]


class Explained(BaseModel):
    """The output of `bailiff explain -o json`. Fields that do not apply to the question are null.

    Attributes:
        about: The argument of the command.
        head_seq: The last record of the log.
        candidates: All jobs that were considered; only with --all.
        reproduced: Whether searching again gives the proposals of this decision's selection.
        counterfactual: The answer to --not.
        next: The victims if the same preemptor came again.
        then: The answer to NODE@TIME.
    """

    model_config = ConfigDict(extra="forbid")

    about: str
    pool: str
    head_seq: int
    sections: tuple[ExplainedSection, ...]
    condition: Condition | None = None
    candidates: tuple[Candidate, ...] | None = None
    reproduced: bool | None = None
    counterfactual: Counterfactual | None = None
    next: NextVictims | None = None
    then: NodeAtTime | None = None


@dataclass
class Found:
    """Records about the question.

    Attributes:
        state: The state at the end of the log.
        decision: The decision to explain.
    """

    state: PoolState = field(default_factory=PoolState)
    history: list[Record] = field(default_factory=list)
    decision: Record | None = None
    proposal: Record | None = None
    outcome: Outcome | None = None


@dataclass
class Log:
    """A log that can be read repeatedly.

    Attributes:
        state: Returns the state at its end.
        about: Returns the records about a job, if they are known without reading the whole log.
    """

    pool: str
    read: Read
    state: Callable[[], Awaitable[PoolState]]
    about: Callable[[str], Awaitable[Sequence[Wire] | None]] | None = None

    async def wires(self) -> AsyncGenerator[tuple[int, Wire], None]:
        """The records that continue the chain, undecoded, each with its seq."""
        verifier = ChainVerifier(self.pool)
        async with aclosing(self.read()) as messages:
            async for message in messages:
                wire = verifier.verify(message)
                if wire is not None:
                    yield verifier.head.next_seq - 1, wire

    async def wires_about(self, job: str) -> AsyncGenerator[tuple[int, Wire], None]:
        """The records about a job, with the requests and proposals that decisions about it answer, or all of the log."""
        found = await self.about(job) if self.about is not None else None
        for wire in found or ():
            yield decode(wire).seq, wire
        if found is None:
            async with aclosing(self.wires()) as wires:
                async for each in wires:
                    yield each

    async def folded(self, until: int | None = None) -> PoolState:
        """The state after the record `until`, or at the end."""
        state = PoolState()
        async with aclosing(self.wires()) as wires:
            async for number, wire in wires:
                apply(state, decode(wire))
                if number == until:
                    break
        return state

    async def found(self, about: str, seq: int | None) -> Found:
        """Reads the records about a job or record. Verifies what it reads, but decodes only relevant ones.

        The decision is the record `seq`, or the newest one about the job.
        """
        found = Found(state=await self.state())
        requests: dict[int, Wire] = {}
        proposal: Wire | None = None
        async with aclosing(self.wires_about(about) if seq is None else self.wires()) as wires:
            async for number, wire in wires:
                if number > found.state.seq or (found.outcome is not None and found.outcome.known):
                    break
                kind = dict(wire.headers).get("ce_type")
                if kind == PROPOSAL:
                    proposal = wire
                if kind == REQUEST:
                    requests[number] = wire
                if found.outcome is not None:
                    found.outcome.take(decode(wire))
                if number != seq if seq is not None else about.encode() not in wire.value:
                    continue
                record = decode(wire)
                if seq is None and about not in jobs_of(record):
                    continue
                if isinstance(record.data, Decision):
                    found.decision, found.proposal = record, decode(proposal) if proposal is not None else None
                    if about != record.data.preemptor.job and record.data.request in requests:
                        found.history.append(decode(requests[record.data.request]))
                found.history.append(record)
                if seq is not None:
                    found.decision, found.outcome = record, Outcome(record)
        return found


def explain_job(about: str, found: Found) -> Explained:
    """Explains a job.

    Raises:
        KeyError: The job is unknown.
    """
    sections = core.explain_job(found.state, found.state.jobs[about], found.history)
    return _explained(about, found.state, sections, condition=_condition(found, about))


async def explain_record(log: Log, about: str, seq: int, found: Found) -> Explained:
    """Explains a record.

    Raises:
        ClientError: There is no such record.
    """
    if found.decision is None:
        raise NotFound(f"{log.pool} has no record #{seq}: its log ends at #{found.state.seq}")
    sections = core.explain_record(found.decision) or [_record_section(found.decision, found.state)]
    later = found.outcome.section(found.state) if found.outcome is not None else None
    explained = _explained(about, found.state, sections if later is None else [*sections, later])
    if isinstance(found.decision.data, decisions.PreemptionDecided) and _by_this_logic(found):
        return await with_next_victims(log, explained, found)
    return explained


def _record_section(record: Record, state: PoolState) -> core.Section:
    """The text of the record, as the answer to the question that its type is about."""
    question = QUESTIONS.get(type(record.data), "What does the record say?")
    sentences = [core.Sentence(f"At {clock(record.time)}: {sentence(record, state)}", (record.seq,))]
    if record.request:
        from bailiff_log.signed_requests import signing_key  # imported here: it loads the messages of the bus

        sentences.append(core.Sentence(f"The request is signed by the key {signing_key(record)}.", (record.seq,)))
    elif record.auth == "none":
        sentences.append(core.Sentence("The request is not signed: who sent it was not verified.", (record.seq,)))
    return core.Section(question, tuple(sentences))


async def with_next_victims(log: Log, explained: Explained, found: Found) -> Explained:
    """Adds which jobs the same preemptor would preempt next, right after the decision."""
    seq, decision, _ = _decision(found, "--next")
    preemptor = decision.preemptor.job
    next_set = next_victims(await log.folded(seq), preemptor)
    return _with(explained, core.explain_next_victims(next_set, preemptor, seq), next=next_set)


async def with_searched_again(log: Log, explained: Explained, found: Found) -> Explained:
    """Adds whether searching again gives the proposal that was decided on. Unchanged for records that answer none."""
    decision, proposal = found.decision, found.proposal
    if decision is None or proposal is None or not _by_this_logic(found):
        return explained
    assert isinstance(proposal.data, ProposalReceived)
    section, reproduced = searched_again(await log.folded(proposal.data.computed_at), decision, proposal)
    return explained.model_copy(update={"sections": (*explained.sections, section), "reproduced": reproduced})


def searched_again(state: PoolState, decision: Record, proposal: Record) -> tuple[ExplainedSection, bool]:
    """The section about searching again on the state on which the proposal was computed, and whether the result is the same."""
    assert isinstance(proposal.data, ProposalReceived)
    assert isinstance(decision.data, Decision)
    differences = Searched.on(state).differences(proposal.seq, proposal.data)
    found = core.explain_searched_again(differences, proposal.seq, proposal.data.computed_at, decision.data.request)
    return _section(found), not differences


async def with_counterfactual(log: Log, explained: Explained, found: Found, other: str) -> Explained:
    """Adds why `other` was not chosen, or the outcome without it."""
    seq, decision, proposal = _decision(found, "--not")
    pool = await log.folded(proposal.computed_at)
    if other not in pool.jobs:
        raise NotFound(f"--not: there was no job {other!r} when #{seq} was decided")
    result = counterfactual(pool, decision, proposal.proposals, other)
    return _with(explained, core.explain_counterfactual(result, seq), counterfactual=result)


async def with_candidates(log: Log, explained: Explained, found: Found) -> Explained:
    """Adds all candidates: every job with allocated resources when the proposal was computed."""
    _, decision, proposal = _decision(found, "--all")
    considered = candidates(await log.folded(proposal.computed_at), decision, proposal.proposals)
    return explained.model_copy(update={"candidates": tuple(considered)})


async def explain_node(log: Log, about: str, node: str, device: int | None, when: Point) -> Explained:
    """Explains what was on a node at a time, before and after.

    Raises:
        ClientError: The node or GPU is unknown.
    """
    watch = core.NodeHistory(node)
    async with aclosing(log.wires()) as wires:
        async for _, wire in wires:
            watch.take(decode(wire))
    if node not in watch.state.node_numbers:
        raise not_found(NodeNotFound, node, watch.state)
    then = watch.at(when.at(watch.state.now).time or 0)
    if device is not None and then.devices and device not in [each.number for each in then.devices]:
        raise NotFound(f"{node} has no GPU {device}: it has {len(then.devices)}, counted from 0")
    shown = tuple(each for each in then.devices if device is None or each.number == device)
    on_node = NodeAtTime(node=node, time=then.time, seq=then.seq, devices=shown)
    return _explained(about, watch.state, core.explain_node(then, device)).model_copy(update={"then": on_node})


def _explained(about: str, state: PoolState, sections: list[core.Section], condition: Condition | None = None) -> Explained:
    return Explained(
        about=about, pool=state.pool, head_seq=state.seq, sections=tuple(_section(each) for each in sections), condition=condition
    )


def _section(section: core.Section) -> ExplainedSection:
    return ExplainedSection(
        question=section.question, sentences=tuple(CitedSentence(text=each.text, seqs=each.seqs) for each in section.sentences)
    )


def _with(explained: Explained, section: core.Section, **more: Any) -> Explained:
    return explained.model_copy(update={"sections": (*explained.sections, _section(section)), **more})


def _condition(found: Found, job: str) -> Condition | None:
    """The Kubernetes condition of a preempted job."""
    for record in reversed(found.history):
        if isinstance(record.data, decisions.PreemptionDecided):
            for choice in record.data.victims:
                if choice.job == job:
                    return core.condition_of(record.data, choice)
    return None


def _by_this_logic(found: Found) -> bool:
    data = found.proposal.data if found.proposal is not None else None
    return isinstance(data, ProposalReceived) and data.logic == LOGIC


def _decision(found: Found, option: str) -> tuple[int, Decision, ProposalReceived]:
    """The decision with its seq, and what it answers. Raises `ClientError` if there is none, or another logic decided."""
    record, proposal = found.decision, found.proposal.data if found.proposal is not None else None
    if record is None or not isinstance(record.data, Decision) or not isinstance(proposal, ProposalReceived):
        raise NotFound(f"{option}: no decision with victims found", f"omit {option} to see the other sections")
    if proposal.logic != LOGIC:
        advice = f"the record itself: bailiff audit show {record.seq}"
        text = f"{option}: #{record.seq} was decided with logic {proposal.logic}, this release has logic {LOGIC}"
        raise ClientError(ExitCode.UNREADABLE, text, advice)
    return record.seq, record.data, proposal
