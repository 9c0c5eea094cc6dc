"""Empties the nodes for `make down` as `bailiff drain` does, so that jobs save first, and undrains them at the next `make up`."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bailiff.client.answers import require_accepted
from bailiff.client.client import Client
from bailiff.render.serializers.victims import affected_by
from bailiff_core.humanize import count_text, duration_text, first_names
from bailiff_core.model.state import Drain, Node, PoolState
from bailiff_core.records.node_requests import DrainNode, UndrainNode

REASON = "make down"
"""The reason of these drains: only they end with `make up`."""
MARGIN_S = 15
"""Time after the longest grace in which the GPUs are seen free."""
_POLL_S = 0.2


async def empty(client: Client, pool: str, *, at_once: bool, say: Callable[[str], Any]) -> None:
    """Evict all jobs with their whole grace and wait until they are gone, or should be.

    Args:
        at_once: Without grace. Also ends the grace of what an earlier call evicts.
    """
    state = (await client.projection(pool)).state
    drains = [(node, drain) for node in state.nodes.values() if (drain := _drain(state, node, at_once)) is not None]
    rows = [
        row for node, drain in drains for row in affected_by(state, node, drain) if not row["effect"].startswith("reservation")
    ]
    for node, drain in drains:
        body = DrainNode(node=node.name, mode=drain.mode, deadline=drain.deadline, reason=drain.reason)
        await require_accepted(client, await client.request(pool, body))
    grace = max((row["grace_s"] for row in rows), default=0)
    if rows and not at_once:
        names = ", ".join(dict.fromkeys(row["job"] for row in rows))
        until = f"until {time.strftime('%H:%M:%S', time.localtime(time.time() + grace))}, {duration_text(grace * 1_000_000)}"
        say(f"asking {names} to save and stop: waiting {until} at most (not to wait: Ctrl-C, or make down NOW=1)")
    await _wait(client, pool, {node.number for node, _ in drains}, grace + MARGIN_S, say)


def _drain(state: PoolState, node: Node, at_once: bool) -> Drain | None:
    """What the node needs; None where nothing runs and nothing may start. A drain by an operator keeps its reason."""
    idle = not node.allocated.slots
    if node.state == "lost" or (idle and (node.drain is not None or not (state.queue or state.active))):
        return None
    reason = REASON if node.drain is None else node.drain.reason
    return Drain(0, "fast", reason, 0) if at_once else Drain(0, "quick", reason)


async def _wait(client: Client, pool: str, nodes: set[int], seconds: float, say: Callable[[str], Any]) -> None:
    """Until the nodes are empty, or the time is over."""

    async def on_them() -> set[str]:
        state = (await client.projection(pool)).state
        return {job.id for job in state.active_jobs() if any(task.node in nodes for task in job.tasks)}

    left = await on_them()
    try:
        async with asyncio.timeout(seconds):
            while left:
                await asyncio.sleep(_POLL_S)
                now = await on_them()
                for job in sorted(left - now):
                    say(f"{job} has stopped" + (f"; waiting for {first_names(sorted(now))}" if now else ""))
                left = now
    except TimeoutError:
        say(f"{count_text(len(left), 'job')} did not stop in time: {', '.join(sorted(left))}")


async def refill(client: Client, pool: str, say: Callable[[str], Any]) -> None:
    """Undrain the nodes that `empty` has drained."""
    for node in (await client.projection(pool)).state.nodes.values():
        if node.drain is not None and node.drain.reason == REASON:
            await require_accepted(client, await client.request(pool, UndrainNode(node=node.name, reason="make up")))
            say(f"{node.name} takes jobs again")
