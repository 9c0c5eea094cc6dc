"""Phrases shared by several entries."""

from collections.abc import Sequence

from bailiff_core.humanize import count_text, gpus_text, memory_text, thousandths_text
from bailiff_core.model.demand import JobDemand, TaskGroup
from bailiff_core.model.identity import SignIn
from bailiff_core.model.placement_ranges import NodeShare, numbers, ranges
from bailiff_core.model.state import PoolState
from bailiff_core.records import Record
from bailiff_core.records.wire import time_text


def demand_text(demand: JobDemand) -> str:
    """`2 × 4 GPUs, 2 CPU, 8GiB` for a gang."""
    groups = []
    for group in demand.tasks:
        parts = [part] if (part := gpus_of(group)) else []
        parts += [f"{thousandths_text(group.cpu_milli)} CPU"] if group.cpu_milli else []
        parts += [memory_text(group.memory_bytes)] if group.memory_bytes else []
        text = ", ".join(parts) or "no GPU"
        shown = f"({text})" if len(parts) > 1 else text
        groups.append(f"{group.count} × {shown}" if group.count > 1 else text)
    least = f" (at least {count_text(demand.min_tasks, 'task')})" if demand.min_tasks is not None else ""
    return " + ".join(groups) + least


def gpus_of(group: TaskGroup) -> str:
    """`4 GPUs`, `0.5 GPU`, `2 × 4GiB of a GPU`, `3g.40gb MIG device`; empty where none is requested."""
    devices = f"{group.gpu_devices} × " if group.gpu_devices is not None and group.gpu_devices > 1 else ""
    if group.gpu_share_bytes is not None:
        return f"{devices}{memory_text(group.gpu_share_bytes)} of a GPU"
    if group.mig_profile is not None:
        return count_text(group.gpu_devices or 1, f"{group.mig_profile} MIG device")
    if group.gpu_share_milli is not None:
        return f"{devices}{thousandths_text(group.gpu_share_milli)} GPU"
    return gpus_text(group.gpu_milli) if group.gpu_milli else ""


def places_text(state: PoolState, placement: Sequence[NodeShare]) -> str:
    """`gpu-01 [0-3], gpu-02 [0-3]` for a placement."""
    devices: dict[int, list[int]] = {}
    for share in placement:
        devices.setdefault(share.node, []).extend(numbers(share.devices))
    shown = [
        f"{node_name(state, node)}{f' [{ranges(devices_on)}]' if devices_on else ''}"
        for node, devices_on in list(devices.items())[:4]
    ]
    if len(devices) > len(shown):
        shown.append(f"and {len(devices) - len(shown)} more nodes")
    return ", ".join(shown)


def island_text(island: str) -> str:
    """What a preference for an island came to; empty without one."""
    texts = {"": "", "per task": "each task on one island", "none": "no island fits"}
    return texts.get(island, f"on island {island}")


def node_name(state: PoolState, number: int) -> str:
    """The node's name, or its number where the state has none."""
    node = state.nodes.get(number)
    return node.name if node is not None else f"node {number}"


def class_text(state: PoolState, job: str, priority: int) -> str:
    """`train 50`."""
    known = state.jobs.get(job)
    return f"{known.class_name} {priority}" if known is not None else f"priority {priority}"


def joined(*parts: str) -> str:
    """The parts that are not empty, separated by commas."""
    return ", ".join(part for part in parts if part)


def with_reason(text: str, reason: str) -> str:
    """`jobs may finish: new memory`; without a reason only the text."""
    return f"{text}: {reason}" if reason else text


def requested_by(record: Record) -> str:
    """`by ada (signed)`, `by dora (not verified)`; for a signed-in user also who vouches. Empty for a record of no user."""
    if not record.actor:
        return ""
    found = sign_in_of(record)
    vouched = f", {found.subject} of {found.issuer}" if found is not None else ""
    return f"by {record.actor} ({record.auth if record.actor_verified else 'not verified'}{vouched})"


def sign_in_of(record: Record) -> SignIn | None:
    """Who the signed-in user is that the request is for, as the signer vouches for it."""
    request = getattr(record.data, "request", None)
    found: SignIn | None = getattr(request, "vouched_by", None)
    return found


def until(moment: int | None, before: str) -> str:
    """`reserved until 12:04:31`; empty without a time."""
    return "" if moment is None else f"{before} {time_text(moment)[11:19]}"


def members(job: str, tasks: str) -> str:
    """`train-7`, or `train-7/4-7` where only some of its tasks are meant."""
    return f"{job}/{tasks}" if tasks else job
