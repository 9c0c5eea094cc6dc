"""How a job failed: the reason of its end, and the last lines that it printed."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING

from bailiff.render.plain_text import harmless_output

from .errors import ClientError, JobFailed
from .job_output import OutputFilter, lines

if TYPE_CHECKING:
    from bailiff_core.model.state import Job

    from .client import Client

LAST_LINES, LONGEST_LAST_LINE, LAST_LINES_WITHIN_S = 20, 500, 10.0
LATE_OUTPUT_S = 2.0
"""Output of a job that has just ended may still be on its way."""


async def job_failure(client: Client, pool: str, job: Job, outcome: str) -> JobFailed:
    """The error for a job that has ended, and not by success."""
    from bailiff_core.explain.job_state import end_reason
    from bailiff_core.records import decode

    history = [decode(wire) for wire in await client.records_about(job.id, pool) or ()]
    return JobFailed(job.id, outcome, end_reason(job, history), await last_lines(client, pool, job))


async def last_lines(client: Client, pool: str, job: Job) -> tuple[str, ...]:
    """The last lines of its last attempt; none where they cannot be read, or not soon."""
    last, clock = deque[str](maxlen=LAST_LINES), asyncio.get_running_loop().time
    late = clock() + LATE_OUTPUT_S

    async def is_over() -> bool:
        return bool(last) or clock() > late

    try:
        async with asyncio.timeout(LAST_LINES_WITHIN_S):
            async with aclosing(lines(client, OutputFilter(pool, job.id, attempt=job.attempt), is_over)) as found:
                async for line in found:
                    text = harmless_output(line.text, colours=False)  # a colour that is cut would colour what follows
                    last.append(text if len(text) <= LONGEST_LAST_LINE else f"{text[:LONGEST_LAST_LINE]}…")
    except (ClientError, TimeoutError):
        return ()
    return tuple(last)
