"""What happened to a job, on a node, in a project: the records about it, in the order of the log."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from . import parameters as given
from .answers import Answer
from .asking import Ask, Where, in_domain
from .jobs import submission
from .records import ABOUT_JOBS, OF_JOB, RECORDS, RecordPage

router = APIRouter(tags=["timelines"])
Asked = Annotated[Ask, Depends()]
NODE_TYPES = "(r.type LIKE 'Node%' OR r.type LIKE 'Device%' OR r.type LIKE 'Drain%')"  # as the index has it


@router.get("/domains/{domain}/jobs/{job}/timeline", response_model=RecordPage, summary="What happened to a job")
async def job_timeline(
    ask: Asked, job: given.JobName, paging: given.Pages,
    submitted_seq: given.Submission = None,
) -> Answer:  # fmt: skip
    """Every record about it, those that made it leave too."""
    async with ask.reading() as reading:
        row = await submission(reading, job, submitted_seq)
        where = Where(reading.domain["id"])
        where.plain("r.domain = $1")
        where.add(ABOUT_JOBS, [job])
        where.add("r.seq >= ?", row["submitted_seq"])
        where.add("r.seq <= ?", row["ended_seq"])
        return await reading.page(RECORDS, where, paging, ask.fingerprint)


@router.get("/domains/{domain}/nodes/{node}/timeline", response_model=RecordPage, summary="What happened on a node")
async def node_timeline(ask: Asked, node: given.NodeName, paging: given.Pages) -> Answer:
    """Records about the node and its GPUs, and those with which jobs came and went."""
    where = in_domain("r.domain")
    where.add(
        f"""r.seq IN (SELECT r.seq FROM records r WHERE r.domain = $1 AND {NODE_TYPES}
            AND convert_from(r.value, 'UTF8')::json->>'node' = ?
            UNION SELECT h.from_seq FROM holds h WHERE h.domain = $1 AND h.node = ?
            UNION SELECT h.to_seq FROM holds h WHERE h.domain = $1 AND h.node = ?)""",  # noqa: S608 - our own names
        node,
    )
    return await ask.page(RECORDS, where, paging)


@router.get(
    "/domains/{domain}/projects/{project}/timeline", response_model=RecordPage,
    summary="What happened in a project",
)  # fmt: skip
async def project_timeline(
    ask: Asked, project: Annotated[str, Path(max_length=256, pattern=given.WITHOUT_NUL, examples=["research"])],
    paging: given.Pages, from_: given.From = None, to: given.To = None,
) -> Answer:  # fmt: skip
    """Records about jobs of the project."""
    where = in_domain("r.domain")
    where.add(OF_JOB.format("j.project = ?"), project)
    where.add("r.time >= ?", from_)
    where.add("r.time < ?", to)
    return await ask.page(RECORDS, where, paging)
