"""`/explain` and `/jobs/{job}`: what `bailiff explain` and `bailiff describe` say, without reading the whole log anew."""

import re
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bailiff import explaining
from bailiff.eventline.lines import lines
from bailiff.explaining import Explained, Log
from bailiff.moments import moment
from bailiff.present.jobs import job_details
from bailiff.present.policy import class_rows
from bailiff_bus.port import Message
from bailiff_console.answers import Answer
from bailiff_console.live.follower import Followed
from bailiff_console.live.pools import Pools
from bailiff_console.problems import Refused, missing
from bailiff_core.explain import jobs_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, Wire, decode
from bailiff_core.records.decisions import PreemptionDecided, PreemptionRefused
from bailiff_core.records.facts import ProposalReceived

from .reading import messages_at, wires_from

router = APIRouter()
NODE = re.compile(r"(?P<node>[^/@]+)(/(gpu)?(?P<device>[0-9]+))?@(?P<when>.+)")
OUTCOME_WITHIN = 30_000  # records after a decision in which it is looked for what came of it
WHOLE_LOG = 300_000  # records: a longer log is not read whole for one answer


class PastLog(Log):
    """The log as the console has it at hand: only the records that matter to the question are read.

    job: those about this one. seq: those around this one, from the request that it answers to what came of it. Neither: all.
    """

    def __init__(self, followed: Followed, *, job: str | None = None, first: int = 0, last: int | None = None) -> None:
        super().__init__(followed.name, self._nothing, self._live)
        self._followed, self._job, self._first, self._last = followed, job, first, last

    async def wires(self) -> AsyncGenerator[tuple[int, Wire], None]:
        followed = self._followed
        if self._job is not None:
            offsets = followed.histories.of(self._job)
            if offsets is None:
                raise missing(f"{self._job} ended too long ago for the console to know its records; the archive has them")
            for message in await messages_at(followed.bus, followed.place.partition, offsets):
                wire = Wire(message.headers, message.value)
                yield decode(wire).seq, wire
            return
        head = followed.pool.seq
        last = head if self._last is None else min(self._last, head)
        snapshot = await followed.past.snapshots.place_before(self._first)
        async for found in wires_from(followed.bus, followed.name, followed.place.partition, *snapshot, last):
            yield found

    async def folded(self, until: int | None = None) -> Pool:
        """Whoever asks for it looks at it before anybody else has a turn."""
        if until is None:
            return self._followed.pool
        async with self._followed.past.at(seq=until, end=self._followed.pool.seq) as then:
            return then.pool

    async def _live(self) -> Pool:
        return self._followed.pool

    async def _nothing(self) -> AsyncGenerator[Message, None]:
        for message in list[Message]():  # all that is read goes through `wires`
            yield message


async def record_at(followed: Followed, seq: int) -> Record:
    """One record. Raises `Refused` where there is none."""
    if not 0 <= seq <= followed.pool.seq:
        raise missing(f"{followed.name} has no record #{seq}: its log ends at #{followed.pool.seq}")
    async for number, wire in PastLog(followed, first=seq, last=seq).wires():
        if number == seq:
            return decode(wire)
    raise missing(f"{followed.name} has no record #{seq}")


async def log_around(followed: Followed, record: Record) -> PastLog:
    """The log from what the record answers to what may have come of it."""
    data = record.data
    first = record.seq
    if isinstance(data, PreemptionDecided | PreemptionRefused):
        first = min(first, data.request)
    return PastLog(followed, first=first, last=record.seq + OUTCOME_WITHIN)


@router.get("/api/pools/{pool}/explain/{about:path}")
async def explain(request: Request, pool: str, about: str, everybody: Annotated[bool, Query(alias="all")] = False) -> Answer:
    """A job, a record's number, or NODE@TIME."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    found = await _explained(followed, about, everybody=everybody)
    return Answer(found.model_dump(mode="json"), headers={"cache-control": "no-store"})


async def _explained(followed: Followed, about: str, *, everybody: bool) -> Explained:
    node = NODE.fullmatch(about)
    if node is not None:
        return await _of_node(followed, about, node)
    number = about.removeprefix("#")
    if number.isascii() and number.isdigit():
        record = await record_at(followed, int(number))
        log = await log_around(followed, record)
        found = await log.found(about, record.seq)
        explained = await explaining.explain_record(log, about, record.seq, found)
    else:
        job_of(followed, about)
        log = PastLog(followed, job=about)
        found = await log.found(about, None)
        job_of(followed, about)  # the pool went on while its records were read
        explained = explaining.explain_job(about, found)
    has_list = found.decision is not None and isinstance(found.decision.data, PreemptionDecided | PreemptionRefused)
    if everybody and has_list and found.proposal is not None and isinstance(found.proposal.data, ProposalReceived):
        return await explaining.with_candidates(log, explained, found)
    return explained


async def _of_node(followed: Followed, about: str, asked: re.Match[str]) -> Explained:
    try:
        when = moment(asked["when"]).at(followed.pool.now)
    except ValueError:
        text = f"NODE@TIME: expected a time as in 2026-01-31T12:00:00Z, or how long ago, as in -10m; found {asked['when'][:64]!r}"
        raise Refused(400, text, [{"where": "about", "found": asked["when"][:64], "text": text}]) from None
    if followed.pool.seq > WHOLE_LOG:
        text = f"the log has {followed.pool.seq + 1:,} records, too many to be read for this; ask: bailiff explain {about}"
        raise Refused(409, text)
    device = int(asked["device"]) if asked["device"] is not None else None
    return await explaining.explain_node(PastLog(followed), about, asked["node"], device, when)


def job_of(followed: Followed, name: str) -> Any:
    """The job as the pool knows it. Raises `Refused`."""
    job = followed.pool.jobs.get(name)
    if job is None:
        raise missing(f"{followed.name} knows no job {name!r}; it forgets those that ended long ago, which the archive still has")
    return job


@router.get("/api/pools/{pool}/jobs/{name}")
async def job(request: Request, pool: str, name: str) -> Answer:
    """All about one job, as `bailiff describe` has it, with its class."""
    pools: Pools = request.app.state.pools
    followed = pools.get(pool)
    job_of(followed, name)
    history = [decode(wire) async for _, wire in PastLog(followed, job=name).wires()]
    mine = [record for record in history if name in jobs_of(record)]
    found, live = job_of(followed, name), followed.pool
    told = [line for record in mine for line in _about(lines(record, live), name)]
    details = job_details(live, found, live.now, mine, [f"{line.day} {line}" for line in told])
    classes = [row for row in class_rows(live) if row["priority_class"] == found.class_name]
    user = found.user or followed.memo.owners.get(name, "")
    return Answer({**details, "class": classes[0] if classes else None, "user": user}, headers={"cache-control": "no-store"})


def _about(found: list[Any], name: str) -> list[Any]:
    """Of a preemption's lines, the one for this victim; for its asker, and for any other record, all."""
    return [line for line in found if "→" in line.said.who and line.said.who.startswith((f"{name} ", f"{name}/"))] or found
