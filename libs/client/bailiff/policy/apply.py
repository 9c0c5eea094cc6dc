"""Applies a policy, unless it is in force already: `bailiff policy apply`, and `policy.apply` of the Python client."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bailiff.client.client import Client
from bailiff.client.errors import Rejected
from bailiff_core.admission.pool import in_force
from bailiff_core.records.pool_requests import ApplyPolicy

ALREADY = "already-in-force"


class Applied(NamedTuple):
    """The record `seq` since which the policy is in force, and whether it was before the request."""

    seq: int
    unchanged: bool


async def apply_policy(client: Client, pool: str, body: ApplyPolicy, send: Callable[[], Awaitable[int]]) -> Applied:
    """Sends the request, unless the policy is in force. Of two who apply the same at once, one changes it.

    Args:
        send: Sends it, and returns the seq of its record. Raises `Rejected`.
    """
    if in_force((await client.projection(pool)).state, body) is None:
        try:
            return Applied(await send(), unchanged=False)
        except Rejected as refused:
            if refused.code != ALREADY:
                raise
    return Applied((await client.projection(pool)).state.policy_revision, unchanged=True)
