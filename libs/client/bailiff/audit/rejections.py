"""Judges the rejections of a verified log in a second reading, which folds it up to the last of them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from bailiff.client.errors import CheckFailed
from bailiff_bus.port import Message
from bailiff_core.fold import apply
from bailiff_core.model.state import PoolState
from bailiff_log.chain_verifier import ChainVerifier
from bailiff_log.log_signatures import DeferredSignatureCheck
from bailiff_log.request_verifier import RequestVerifier


async def judge_rejections(requests: RequestVerifier, messages: AsyncGenerator[Message, None]) -> None:
    """Judges what `requests` has left.

    Args:
        messages: Those that it has taken the records of, from the log's first one on.

    Raises:
        ClientError: They are not the same as before.
    """
    if not requests.rejections:
        return
    state, waiting, last = PoolState(), set(requests.rejections), requests.rejections[-1]
    verifier = ChainVerifier(requests.pool, DeferredSignatureCheck(requests.pool))  # verified in the first reading
    async with aclosing(messages):
        async for message in messages:
            record = verifier.read(message)
            if record is None:
                continue
            if record.seq == last and record.prev != requests.before_last_rejection:
                break
            if record.seq in waiting:
                requests.judge(record, state)
            if record.seq == last:
                return
            try:
                apply(state, record)
            except Exception as error:  # noqa: BLE001 - a log that was tampered with may fail anywhere in the fold
                requests.cannot_follow(record, error)
                return
    raise CheckFailed("the log changed between its two readings", "try again")
