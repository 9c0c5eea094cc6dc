"""A question to a log: about a job, a record, or a node at a time. For `bailiff explain` and the Python client."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from bailiff.audit.log_positions import WANTED, Point, moment, wall_clock
from bailiff.client.answers import no_such_job
from bailiff.client.errors import UsageError
from bailiff_bus import topics

from . import explanations
from .explanations import Explained, Log

if TYPE_CHECKING:
    from bailiff.client.client import Client
    from bailiff_bus.port import Message
    from bailiff_core.model.state import PoolState

NODE = re.compile(r"(?P<node>[^/@]+)(/(gpu)?(?P<device>[0-9]+))?@(?P<when>.+)")


async def log_of(client: Client, pool: str | None) -> Log:
    """The pool's log in Kafka."""
    where = await client.pool(pool)

    async def read() -> AsyncGenerator[Message, None]:
        span = {where.partition: (await client.audit_spans())[where.partition]}
        async for message in client.messages(topics.AUDIT.name, span):
            yield message

    async def state() -> PoolState:
        return (await client.projection(where.name)).state

    return Log(where.name, read, state, lambda job: client.records_about(job, where.name))


async def answer(
    log: Log, about: str, *, all_: bool = False, instead: str | None = None, next_: bool = False, live: bool = True
) -> Explained:
    """Answers a question about a job, a record or a node.

    Args:
        about: A job, `118` or `#118`, or `node-3/gpu2@-10m`.
        live: Times ago count from now instead of the log's end.

    Raises:
        ClientError: The log cannot answer the question.
    """
    node = NODE.fullmatch(about)
    if node is not None:
        if all_ or next_ or instead is not None:
            raise UsageError(f"--all, --not and --next need a job or a decision; {about} is a node at a time")
        device = int(node["device"]) if node["device"] is not None else None
        return await explanations.explain_node(log, about, node["node"], device, _when(node["when"], live=live))
    number = about.removeprefix("#")
    seq = int(number) if number.isascii() and number.isdigit() else None
    found = await log.found(about, seq)
    if seq is not None:
        explained = await explanations.explain_record(log, about, seq, found)
        explained = await explanations.with_searched_again(log, explained, found)
    elif about in found.state.jobs:
        explained = explanations.explain_job(about, found)
    else:
        raise no_such_job(about, found.state, found.history)
    if instead is not None:
        explained = await explanations.with_counterfactual(log, explained, found, instead)
    if next_ and explained.next is None:
        explained = await explanations.with_next_victims(log, explained, found)
    return await explanations.with_candidates(log, explained, found) if all_ else explained


def _when(text: str, *, live: bool) -> Point:
    """Parses a time. A duration ago counts from now; in a file, from its last record."""
    try:
        found = moment(text)
    except ValueError:
        raise UsageError(f"NODE@TIME: expected {WANTED}; found {text!r}") from None
    return found.at(wall_clock()) if live else found
