"""The private part of a job, which admission encrypts for whoever may read it by the policy's table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.messages.spec_copies import JobSpecCopy
from bailiff_bus.port import Span
from bailiff_core.records.job_requests import ReadJobSpec
from bailiff_log.encryption import CannotDecrypt
from bailiff_log.spec_copies import decrypt_copy, new_reader

from .answers import ANSWER_WITHIN, require_accepted
from .errors import NoAnswer, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bailiff_core.model.job_spec import JobSpec
    from bailiff_core.model.state import Job

    from .client import Client


async def read_spec(client: Client, pool: str, job: Job) -> tuple[JobSpec | None, str]:
    """The job's private part; or None, and why it cannot be read. Raises `ClientError`."""
    private, public = new_reader()
    ends = await ends_of_copies(client)
    try:
        sent = await client.request(pool, ReadJobSpec(job=job.id, encryption_key=public))
        granted = await require_accepted(client, sent, ANSWER_WITHIN)
    except Rejected as refused:
        return None, refused.reason
    return await spec_copy(client, pool, job, granted.seq, ends, private)


async def ends_of_copies(client: Client) -> Mapping[int, Span]:
    """Where copies that are requested from now on will be."""
    spans = await client.spans(topics.JOB_SPEC_COPIES.name)
    return {partition: Span(span.end, span.end) for partition, span in spans.items()}


async def spec_copy(
    client: Client, pool: str, job: Job, grant: int, spans: Mapping[int, Span], private: bytes
) -> tuple[JobSpec | None, str]:
    """Wait for the copy of this grant, from these offsets on. What somebody else has sent is passed over. Raises `NoAnswer`."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            async for message in client.messages(topics.JOB_SPEC_COPIES.name, spans, on=True):
                try:
                    body = unwrap(message).body if message.key == f"{pool}/{grant}".encode() else None
                    if isinstance(body, JobSpecCopy) and body.grant == grant and body.encrypted is None:
                        return None, "it was erased"
                    if isinstance(body, JobSpecCopy) and body.grant == grant and body.encrypted is not None:
                        return decrypt_copy(pool, grant, body.encrypted, private, job.spec_digest), ""
                except (InvalidMessage, CannotDecrypt):
                    continue
    except TimeoutError:
        pass
    raise NoAnswer(f"granted at {pool}#{grant}, but admission sent no copy of the command of {job.id}")
