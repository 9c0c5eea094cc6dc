"""`/decisions/{seq}`: one decision with its preemptor, candidates, victims, and the state before and after."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from typing_extensions import TypedDict

from bailiff.explain import explanations
from bailiff.explain.explanations import ExplainedSection
from bailiff.render.serializers.nodes import node_row
from bailiff_console.live.follower import PoolFollower
from bailiff_console.live.pools import Pools
from bailiff_console.live.rows import LiveJob, LiveNode, holders_of, live_job, live_node
from bailiff_core.engine import LOGIC
from bailiff_core.explain.candidate_report import Candidate, candidates
from bailiff_core.explain.counterfactual import NextVictims
from bailiff_core.model.proposal import Explanation, VictimChoice
from bailiff_core.model.state import ENDED
from bailiff_core.records import Record
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused, Preemptor
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.subjects import jobs_of
from bailiff_core.records.wire import time_text
from bailiff_core.views import DecisionView, decision_view
from bailiff_service.json_response import JsonResponse

from .explain import log_around, record_at
from .snapshots import PointInTime

router = APIRouter()
MAX_SEARCHED = 16  # requests of a selection


class PoolExcerpt(TypedDict):
    """The nodes and jobs that a record is about, after the record `seq`."""

    seq: int
    nodes: dict[str, LiveNode]
    jobs: dict[str, LiveJob]


class DecisionData(TypedDict, total=False):
    """What the record decides. Fields with their default value are absent; more in docs/events."""

    preemptor: Preemptor
    job: str
    request: int
    action: str
    victims: list[VictimChoice]
    reason: str
    cause: str
    would_need: str
    explanation: Explanation
    unneeded_victims: list[str]
    cancelled_evictions: list[str]
    tasks: str
    attempt: int
    retry_at: int | None


class DecisionDetails(TypedDict):
    """A record with the state before and after it. decision: its data; null: a type of a later release.

    candidates: null, with the reason, if there is no list.
    reproduced: whether searching again gives the same; null: not searched. raw: the address of the record's bytes.
    """

    pool: str
    seq: int
    time: str
    type: str
    cycle: int
    engine: str
    head_seq: int
    view: DecisionView
    decision: DecisionData | None
    candidates: list[Candidate] | None
    no_candidates_reason: str | None
    sections: list[ExplainedSection]
    reproduced: bool | None
    next: NextVictims | None
    before: PoolExcerpt
    after: PoolExcerpt
    raw: str


@router.get("/api/pools/{pool}/decisions/{seq}", response_model=DecisionDetails, tags=["history"])
async def decision(request: Request, pool: str, seq: int) -> JsonResponse:
    """The decision, from the nearest snapshot."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    record = await record_at(followed, seq)
    log = await log_around(followed, record)
    found = await log.found(str(seq), seq)
    listed, not_listed_reason = await _candidates(followed, record, found.proposal)
    again = await _searched_again(followed, record, found.proposal) if listed is not None else None
    about = list(jobs_of(record))
    async with followed.history.at(seq=max(0, seq - 1), end=followed.state.seq) as then:
        numbers = _nodes_of(then, about, record)
        before = await asyncio.to_thread(_rows, then, about, numbers)
    async with followed.history.at(seq=seq, end=followed.state.seq) as then:
        numbers = list(
            dict.fromkeys([*numbers, *_nodes_of(then, about, record)])
        )  # a node that joins exists only after the record
        after = await asyncio.to_thread(_rows, then, about, numbers)
        view = decision_view(then.state, record.data)
    explained = await explanations.explain_record(log, str(seq), seq, found)
    data = record.data
    return JsonResponse(
        {
            "pool": pool,
            "seq": seq,
            "time": time_text(record.time),
            "type": record.type,
            "cycle": record.cycle,
            "engine": record.engine,
            "head_seq": followed.state.seq,
            "view": view.model_dump(mode="json"),
            "decision": data.to_data() if data is not None else None,
            "candidates": listed,
            "no_candidates_reason": not_listed_reason,
            "sections": [each.model_dump(mode="json") for each in (*explained.sections, *([again[0]] if again else []))],
            "reproduced": again[1] if again is not None else None,
            "next": explained.model_dump(mode="json")["next"],
            "before": before,
            "after": after,
            "raw": f"/api/archive/pools/{pool}/records/{seq}",
        },
        headers={"cache-control": "no-store"},
    )


async def _candidates(followed: PoolFollower, record: Record, proposal: Record | None) -> tuple[list[Any] | None, str | None]:
    """All jobs with allocations when the proposal was computed; or None and the reason."""
    data = record.data
    if not isinstance(data, PreemptionDecided | PreemptionRefused):
        return None, "this record selects no victims"
    if proposal is None or not isinstance(proposal.data, ProposalReceived):
        return None, "no proposal precedes it"
    if proposal.data.logic != LOGIC:
        return None, f"it was decided by engine logic {proposal.data.logic}; this release has {LOGIC}"
    async with followed.history.at(seq=proposal.data.computed_at, end=followed.state.seq) as then:
        return await asyncio.to_thread(candidates, then.state, data, proposal.data.proposals), None


async def _searched_again(
    followed: PoolFollower, record: Record, proposal: Record | None
) -> tuple[explanations.ExplainedSection, bool] | None:
    """Whether searching again gives the same, as a section; None for a large selection, which takes too long for a page."""
    if proposal is None or not isinstance(proposal.data, ProposalReceived) or len(proposal.data.proposals) > MAX_SEARCHED:
        return None
    async with followed.history.at(seq=proposal.data.computed_at, end=followed.state.seq) as then:
        return await asyncio.to_thread(explanations.searched_again, then.state, record, proposal)


def _nodes_of(then: PointInTime, about: list[str], record: Record) -> list[int]:
    """Nodes the record is about: where these jobs are placed, and where tasks are to be placed."""
    found = [share.node for share in getattr(record.data, "placement", ())]
    found += [share.node for victim in getattr(record.data, "victims", ()) for share in victim.moved_to]
    for name in about:
        job = then.state.jobs.get(name)
        if job is not None and job.phase not in ENDED:
            found += [task.node for task in (*job.tasks, *job.reservation) if task.state != "released"]
    named = then.state.node_numbers.get(str(getattr(record.data, "node", "")))
    return sorted(dict.fromkeys([*found, *([named] if named is not None else [])]))


def _rows(then: PointInTime, about: list[str], numbers: list[int]) -> PoolExcerpt:
    """Rows of these nodes, of these jobs, and of all jobs placed on these nodes."""
    state = then.state
    placed = {
        number: [job for job in state.active_jobs() if any(task.node == number for task in job.tasks)]
        for number in numbers
        if number in state.nodes
    }
    nodes = {
        state.nodes[number].name: live_node(node_row(state, state.nodes[number], holders_of(state.nodes[number], jobs)))
        for number, jobs in placed.items()
    }
    names = dict.fromkeys([*about, *(job.id for jobs in placed.values() for job in jobs)])
    jobs = {name: live_job(state, state.jobs[name], then.view_cache) for name in names if name in state.jobs}
    return {"seq": state.seq, "nodes": nodes, "jobs": jobs}
