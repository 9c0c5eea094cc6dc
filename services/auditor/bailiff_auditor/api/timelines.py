"""Timelines: the records about a job, a node or a project, in log order."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from bailiff_service.json_response import JsonResponse

from . import parameters as given
from .jobs import submission
from .query import PoolQuery, Where, in_pool
from .records import ABOUT_JOBS, OF_JOB, RECORDS, RecordPage

router = APIRouter(tags=["timelines"])
PoolQueryParam = Annotated[PoolQuery, Depends()]
NODE_TYPES = "(r.type LIKE 'Node%' OR r.type LIKE 'Device%' OR r.type LIKE 'Drain%')"  # as in the index


@router.get("/pools/{pool}/jobs/{job}/timeline", response_model=RecordPage, summary="Timeline of a job")
async def job_timeline(
    query: PoolQueryParam, job: given.JobName, paging: given.Pages, submitted_seq: given.Submission = None
) -> JsonResponse:
    """Every record about the job, including preemptions that evicted it."""
    async with query.reading() as reading:
        row = await submission(reading, job, submitted_seq)
        where = Where(reading.pool["id"])
        where.plain("r.pool = $1")
        where.add(ABOUT_JOBS, [job])
        where.add("r.seq >= ?", row["submitted_seq"])
        where.add("r.seq <= ?", row["ended_seq"])
        return await reading.page(RECORDS, where, paging, query.fingerprint)


@router.get("/pools/{pool}/nodes/{node}/timeline", response_model=RecordPage, summary="Timeline of a node")
async def node_timeline(query: PoolQueryParam, node: given.NodeName, paging: given.Pages) -> JsonResponse:
    """Records about the node and its GPUs, and those that changed its allocations."""
    where = in_pool("r.pool")
    where.add(
        f"""r.seq IN (SELECT r.seq FROM records r WHERE r.pool = $1 AND {NODE_TYPES}
            AND convert_from(r.value, 'UTF8')::json->>'node' = ?
            UNION SELECT h.from_seq FROM gpu_allocations h WHERE h.pool = $1 AND h.node = ?
            UNION SELECT h.to_seq FROM gpu_allocations h WHERE h.pool = $1 AND h.node = ?)""",  # noqa: S608 - our own names
        node,
    )
    return await query.page(RECORDS, where, paging)


@router.get("/pools/{pool}/projects/{project}/timeline", response_model=RecordPage, summary="Timeline of a project")
async def project_timeline(
    query: PoolQueryParam,
    project: Annotated[str, Path(max_length=256, pattern=given.WITHOUT_NUL, examples=["research"])],
    paging: given.Pages,
    from_: given.From = None,
    to: given.To = None,
) -> JsonResponse:
    """Records about jobs of the project."""
    where = in_pool("r.pool")
    where.add(OF_JOB.format("j.project = ?"), project)
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await query.page(RECORDS, where, paging)
