"""`bailiff explain`: why a job waits, why it had to leave, for whom, and when it is back; or what one decision says."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import tables, walk
from bailiff.eventline import lines
from bailiff.problem import ExitCode, Problem
from bailiff_core import explain as core
from bailiff_core.considered import candidates
from bailiff_core.engine import LOGIC
from bailiff_core.fold import apply
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused, PreemptionRequested
from bailiff_core.records.facts import ProposalReceived

from .audit import PANEL, FromFile, log_of
from .jobs import no_such_job
from .session import Session, command

PROPOSAL, REQUEST = (kind.type_name().encode() for kind in (ProposalReceived, PreemptionRequested))


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    command(app, rich_help_panel=PANEL)(explain)


@dataclass
class Found:
    """What the log gave: the pool at its end, what is about the job, the decision to look at."""

    domain: str = ""
    pool: Pool = field(default_factory=Pool)
    history: list[Record] = field(default_factory=list)
    decision: Record | None = None
    proposal: Record | None = None
    outcome: core.Outcome | None = None


async def explain(
    session: Session,
    about: Annotated[str, typer.Argument(metavar="JOB|SEQ", help="A job's name, or a record's number, as in 118 or #118.")],
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Also every job that was considered, each with what shielded it, by replay.")
    ] = False,
    file: FromFile = None,
) -> None:
    """Why does it wait, why did it have to leave, for whom, and when is it back? Or: why did that decision turn out so?

    Every sentence names the records to check it by (audit show SEQ). All of it is read from the log; no service is asked.
    """
    number = about.removeprefix("#")
    seq = int(number) if number.isascii() and number.isdigit() else None
    found = await _read(session, file, about, seq)
    sections = _sections_of(found, about, seq)
    shown: dict[str, Any] = {
        "about": about,
        "pool": found.domain,
        "head_seq": found.pool.seq,
        "sections": [asdict(section) for section in sections],
        "condition": _condition(found, about if seq is None else None),
        "candidates": await _candidates(session, file, found) if all_ else None,
    }
    session.show(shown, lambda: tables.explained(shown))


async def _read(session: Session, file: Path | None, about: str, seq: int | None) -> Found:
    """The pool as it is now, and of the log only what concerns the question: most records are checked and not decoded.

    The decision: that record, or the newest about the job.
    """
    found = Found(pool=await _pool(session, file))
    found.domain = found.pool.domain
    requests: dict[int, Wire] = {}
    proposal: Wire | None = None
    async with aclosing(_wires(session, file)) as wires:
        async for number, wire in wires:
            if number > found.pool.seq or (found.outcome is not None and found.outcome.known):
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
            if seq is None and about not in core.jobs_of(record):
                continue
            if isinstance(record.data, PreemptionDecided | PreemptionRefused):
                found.decision, found.proposal = record, decode(proposal) if proposal is not None else None
                if about != record.data.asker.job and record.data.request in requests:
                    found.history.append(decode(requests[record.data.request]))
            found.history.append(record)
            if seq is not None:
                found.decision, found.outcome = record, core.Outcome(record)
    return found


async def _pool(session: Session, file: Path | None) -> Pool:
    """As it is at the end of the log; of Kafka's from the client's cache on, where the log confirms that."""
    if file is None:
        async with session.client() as client:
            return (await client.view(session.domain)).pool
    pool = Pool()
    async with aclosing(_wires(session, file)) as wires:
        async for _, wire in wires:
            apply(pool, decode(wire))
    return pool


def _sections_of(found: Found, about: str, seq: int | None) -> list[core.Section]:
    if seq is not None:
        if found.decision is None:
            raise Problem(ExitCode.NOT_FOUND, f"{found.domain} has no record #{seq}: its log ends at #{found.pool.seq}")
        told = tuple(core.Sentence(str(line), (seq,)) for line in lines(found.decision, found.pool))
        sections = core.explain_record(found.decision) or [core.Section("What does it say?", told)]
        later = found.outcome.section() if found.outcome is not None else None
        return sections if later is None else [*sections, later]
    job = found.pool.jobs.get(about)
    if job is None:
        raise no_such_job(about, found.domain, found.history)
    return core.explain_job(found.pool, job, found.history)


def _condition(found: Found, job: str | None) -> dict[str, Any] | None:
    """What people from Kubernetes look for, where a job was told to leave."""
    for record in reversed(found.history if job is not None else []):
        if isinstance(record.data, PreemptionDecided):
            for choice in record.data.victims:
                if choice.job == job:
                    return asdict(core.condition_of(record.data, choice))
    return None


async def _candidates(session: Session, file: Path | None, found: Found) -> list[dict[str, Any]]:
    """The full lists: the pool folded anew to where the answer was computed, every job that held room there."""
    decision, proposal = found.decision, found.proposal
    if decision is None or proposal is None or not isinstance(decision.data, PreemptionDecided | PreemptionRefused):
        raise Problem(ExitCode.NOT_FOUND, "--all: no decision about victims to look into", "without --all the rest is told")
    assert isinstance(proposal.data, ProposalReceived)
    if proposal.data.logic != LOGIC:
        advice = f"what the record says itself: bailiff audit show {decision.seq}"
        text = f"--all: #{decision.seq} was decided by rules of logic {proposal.data.logic}, and this release has {LOGIC}"
        raise Problem(ExitCode.UNREADABLE, text, advice)
    pool = Pool()
    async with aclosing(_wires(session, file)) as wires:
        async for number, wire in wires:
            apply(pool, decode(wire))
            if number == proposal.data.computed_at:
                break
    return [asdict(candidate) for candidate in candidates(pool, decision.data, proposal.data.answers)]


async def _wires(session: Session, file: Path | None) -> AsyncGenerator[tuple[int, Wire], None]:
    """The records of the log that continue its chain, undecoded, each with its seq."""
    async with log_of(session, file) as (domain, messages), aclosing(messages):
        judge = walk.Walk(domain)
        async for message in messages:
            wire = judge.judge(message)
            if wire is not None:
                yield judge.head.next_seq - 1, wire
