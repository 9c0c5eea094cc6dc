"""`/decisions/{seq}`: one decision as a story: who asked, whom it might have been, who it was, and the pool before and after."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from bailiff import explaining
from bailiff.present.nodes import node_row
from bailiff_console.answers import Answer
from bailiff_console.live.follower import Followed
from bailiff_console.live.pools import Pools
from bailiff_console.live.rows import holders_of, live_job, node_cells
from bailiff_core.considered import candidates
from bailiff_core.engine import LOGIC
from bailiff_core.explain import jobs_of
from bailiff_core.model.pool import ENDED
from bailiff_core.records import Record
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.wire import time_text

from .explain import log_around, record_at
from .snapshots import Moment

router = APIRouter()
Rows = dict[str, Any]


@router.get("/api/pools/{pool}/decisions/{seq}")
async def decision(request: Request, pool: str, seq: int) -> Answer:
    """All of it, from the nearest state that is kept."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    record = await record_at(followed, seq)
    log = await log_around(followed, record)
    found = await log.found(str(seq), seq)
    listed, not_listed = await _candidates(followed, record, found.proposal)
    about = list(jobs_of(record))
    async with followed.past.at(seq=max(0, seq - 1), end=followed.pool.seq) as then:
        places = _places(then, about, record)
        before = await asyncio.to_thread(_rows, then, about, places)
    async with followed.past.at(seq=seq, end=followed.pool.seq) as then:
        places = list(dict.fromkeys([*places, *_places(then, about, record)]))  # a node that joins was not there before
        after = await asyncio.to_thread(_rows, then, about, places)
    explained = await explaining.explain_record(log, str(seq), seq, found)
    data = record.data
    decided = data if isinstance(data, PreemptionDecided | PreemptionRefused) else None
    victims = data.victims if isinstance(data, PreemptionDecided) else ()
    return Answer(
        {
            "pool": pool, "seq": seq, "time": time_text(record.time), "type": record.type, "turn": record.turn,
            "engine": record.engine, "verb": getattr(data, "verb", None), "head_seq": followed.pool.seq,
            "decision": data.to_data() if data is not None else None,
            "asker": decided.asker.model_dump(mode="json") if decided is not None else None,
            "candidates": listed, "no_candidates_because": not_listed,
            "chosen": [choice.model_dump(mode="json") for choice in victims],
            "runner_up": _runner_up(decided),
            "sections": [section.model_dump(mode="json") for section in explained.sections],
            "next": explained.model_dump(mode="json")["next"],
            "before": before, "after": after,
            "raw": f"/api/archive/domains/{pool}/records/{seq}",
        },
        headers={"cache-control": "no-store"},
    )  # fmt: skip


async def _candidates(followed: Followed, record: Record, proposal: Record | None) -> tuple[list[Any] | None, str | None]:
    """Everybody that held room when the answer was computed; or none, and why."""
    data = record.data
    if not isinstance(data, PreemptionDecided | PreemptionRefused):
        return None, "this record chooses nobody"
    if proposal is None or not isinstance(proposal.data, ProposalReceived):
        return None, "no proposal stands before it"
    if proposal.data.logic != LOGIC:
        return None, f"it was decided by rules of logic {proposal.data.logic}, and this release has {LOGIC}"
    async with followed.past.at(seq=proposal.data.computed_at, end=followed.pool.seq) as then:
        return await asyncio.to_thread(candidates, then.pool, data, proposal.data.answers), None


def _runner_up(decided: PreemptionDecided | PreemptionRefused | None) -> Rows | None:
    if decided is None:
        return None
    told = decided.explanation
    return {
        "jobs": list(told.runner_up), "lost_gpu_ms": told.runner_up_lost_gpu_ms, "proven": told.proven, "steps": told.steps,
        "cost": told.runner_up_cost.model_dump(mode="json") if told.runner_up_cost is not None else None,
        "chosen_cost": told.cost.model_dump(mode="json") if told.cost is not None else None,
        "at_least": told.at_least.model_dump(mode="json") if told.at_least is not None else None,
    }  # fmt: skip


def _places(then: Moment, about: list[str], record: Record) -> list[int]:
    """The nodes that it is about: where these jobs stand, and where somebody is to stand."""
    found = [share.node for share in getattr(record.data, "placement", ())]
    found += [share.node for victim in getattr(record.data, "victims", ()) for share in victim.moved]
    for name in about:
        job = then.pool.jobs.get(name)
        if job is not None and job.phase not in ENDED:
            found += [task.node for task in (*job.tasks, *job.promise) if task.state != "released"]
    named = then.pool.node_numbers.get(str(getattr(record.data, "node", "")))
    return sorted(dict.fromkeys([*found, *([named] if named is not None else [])]))


def _rows(then: Moment, about: list[str], places: list[int]) -> Rows:
    """These nodes, and these jobs with all who stand there."""
    pool = then.pool
    wanted = dict.fromkeys(places)
    there = {
        number: [job for job in pool.active_jobs() if any(task.node == number for task in job.tasks)]
        for number in wanted if number in pool.nodes
    }  # fmt: skip
    nodes = {
        pool.nodes[number].name: node_cells(node_row(pool.nodes[number], holders_of(pool.nodes[number], jobs)))
        for number, jobs in there.items()
    }
    names = dict.fromkeys([*about, *(job.id for jobs in there.values() for job in jobs)])
    jobs = {name: live_job(pool, pool.jobs[name], then.memo) for name in names if name in pool.jobs}
    return {"seq": pool.seq, "nodes": nodes, "jobs": jobs}
