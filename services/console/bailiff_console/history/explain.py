"""`/explain` and `/jobs/{job}`: as `bailiff explain` and `bailiff describe`, without reading the whole log."""

import re
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bailiff.audit.log_positions import moment
from bailiff.explain import explanations
from bailiff.explain.explanations import Explained, Log
from bailiff.render.record_text.lines import lines_about
from bailiff.render.serializers.job_details import JobDetails, job_details
from bailiff.render.serializers.policy import ClassRow, class_rows
from bailiff_bus.port import Message
from bailiff_console.live.follower import PoolFollower
from bailiff_console.live.pools import Pools
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused
from bailiff_core.records.facts import ProposalReceived
from bailiff_core.records.subjects import jobs_of
from bailiff_service.json_response import JsonResponse
from bailiff_service.problems import ApiError, invalid, invalid_value, not_found

from .record_reader import job_records, wires_from

router = APIRouter()
NODE = re.compile(r"(?P<node>[^/@]+)(/(gpu)?(?P<device>[0-9]+))?@(?P<when>.+)")
OUTCOME_WITHIN = 30_000  # records after a decision that are searched for its outcome
WHOLE_LOG = 300_000  # records: a longer log is not read as a whole for one request


class PoolLog(Log):
    """The log of a followed pool, reading only the records that the question needs.

    job: records about this job. first, last: this range of records. Neither: all.
    """

    def __init__(self, followed: PoolFollower, *, job: str | None = None, first: int = 0, last: int | None = None) -> None:
        super().__init__(followed.name, self._nothing, self._live)
        self._followed, self._job, self._first, self._last = followed, job, first, last

    async def wires(self) -> AsyncGenerator[tuple[int, Wire], None]:
        followed = self._followed
        if self._job is not None:
            places = followed.job_index.of(self._job, followed.state)
            if places is None:
                raise not_found(f"{self._job} ended too long ago for the console to have its records: see the archive")
            for wire in await job_records(followed.bus, followed.place.partition, places):
                yield decode(wire).seq, wire
            return
        head = followed.state.seq
        last = head if self._last is None else min(self._last, head)
        snapshot = await followed.history.snapshots.position_before(self._first)
        async for found in wires_from(followed.bus, followed.name, followed.place.partition, *snapshot, last):
            yield found

    async def folded(self, until: int | None = None) -> PoolState:
        """The state after this record. Valid only until the next await: it is shared and advances."""
        if until is None:
            return self._followed.state
        async with self._followed.history.at(seq=until, end=self._followed.state.seq) as then:
            return then.state

    async def _live(self) -> PoolState:
        return self._followed.state

    async def _nothing(self) -> AsyncGenerator[Message, None]:
        for message in list[Message]():  # records are read by `wires` only
            yield message


async def record_at(followed: PoolFollower, seq: int) -> Record:
    """One record. Raises `ApiError` if it does not exist."""
    if not 0 <= seq <= followed.state.seq:
        raise not_found(f"{followed.name} has no record #{seq}: its log ends at #{followed.state.seq}")
    async for number, wire in PoolLog(followed, first=seq, last=seq).wires():
        if number == seq:
            return decode(wire)
    raise not_found(f"{followed.name} has no record #{seq}")


async def log_around(followed: PoolFollower, record: Record) -> PoolLog:
    """The log from the request that the record answers to its possible outcome."""
    data = record.data
    first = record.seq
    if isinstance(data, PreemptionDecided | PreemptionRefused):
        first = min(first, data.request)
    return PoolLog(followed, first=first, last=record.seq + OUTCOME_WITHIN)


@router.get("/api/pools/{pool}/explain/{about:path}", response_model=Explained, tags=["history"])
async def explain(
    request: Request, pool: str, about: str, all_candidates: Annotated[bool, Query(alias="all")] = False
) -> JsonResponse:
    """Explain a job, a record (by seq), or NODE@TIME."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    found = await _explained(followed, about, all_candidates=all_candidates)
    return JsonResponse(found.model_dump(mode="json"), headers={"cache-control": "no-store"})


async def _explained(followed: PoolFollower, about: str, *, all_candidates: bool) -> Explained:
    node = NODE.fullmatch(about)
    if node is not None:
        return await _of_node(followed, about, node)
    number = about.removeprefix("#")
    if number.isascii() and number.isdigit():
        record = await record_at(followed, int(number))
        log = await log_around(followed, record)
        found = await log.found(about, record.seq)
        explained = await explanations.explain_record(log, about, record.seq, found)
    else:
        job_of(followed, about)
        log = PoolLog(followed, job=about)
        found = await log.found(about, None)
        job_of(followed, about)  # the state advanced while the records were read
        explained = explanations.explain_job(about, found)
    has_list = found.decision is not None and isinstance(found.decision.data, PreemptionDecided | PreemptionRefused)
    if all_candidates and has_list and found.proposal is not None and isinstance(found.proposal.data, ProposalReceived):
        return await explanations.with_candidates(log, explained, found)
    return explained


async def _of_node(followed: PoolFollower, about: str, match: re.Match[str]) -> Explained:
    try:
        when = moment(match["when"]).at(followed.state.now)
    except ValueError:
        allowed = "NODE@TIME with a time such as 2026-01-31T12:00:00Z, or an age such as -10m"
        raise invalid(invalid_value("about", match["when"], allowed)) from None
    if followed.state.seq > WHOLE_LOG:
        text = f"the log has {followed.state.seq + 1:,} records, too many for this request; run: bailiff explain {about}"
        raise ApiError(409, text)
    device = int(match["device"]) if match["device"] is not None else None
    return await explanations.explain_node(PoolLog(followed), about, match["node"], device, when)


def job_of(followed: PoolFollower, name: str) -> Any:
    """The job in the pool's state. Raises `ApiError`."""
    job = followed.state.jobs.get(name)
    if job is None:
        raise not_found(f"no job {name!r} in {followed.name}; jobs that ended long ago are in the archive only")
    return job


class JobPage(JobDetails):
    """A job with its priority class; null: the policy has none of this name any more."""

    class_row: ClassRow | None


@router.get("/api/pools/{pool}/jobs/{name}", response_model=JobPage, tags=["history"])
async def job(request: Request, pool: str, name: str) -> JsonResponse:
    """Details of one job, as `bailiff describe`, with its priority class."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    job_of(followed, name)
    history = [decode(wire) async for _, wire in PoolLog(followed, job=name).wires()]
    records = [record for record in history if name in jobs_of(record)]
    found, live = job_of(followed, name), followed.state
    job_lines = [line for record in records for line in lines_about(record, name, live)]
    details = job_details(live, found, live.now, records, [f"{line.day} {line}" for line in job_lines])
    classes = [row for row in class_rows(live) if row["priority_class"] == found.class_name]
    return JsonResponse({**details, "class_row": classes[0] if classes else None}, headers={"cache-control": "no-store"})
