"""What must be alive, judged by what it sends: a replica of each control service for every pool, and the node agents.

Services are members of a consumer group of Kafka, which forgets whoever sends it no heartbeats; agents report to the pool.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import NamedTuple

from bailiff.client.client import Client
from bailiff.render.serializers.nodes import Leftovers, ListedNode, node_rows
from bailiff_bus import topics
from bailiff_bus.envelope import InvalidMessage, unwrap
from bailiff_bus.grants import PRINCIPALS
from bailiff_bus.messages.reports import NodeHeartbeat, ReportBody
from bailiff_bus.port import AccessDenied, Message, Span, TopicMissing
from bailiff_core.humanize import count_text, duration_text, first_names
from bailiff_core.model.state import SILENT_AFTER, Node, PoolState
from bailiff_core.records.wire import time_text
from bailiff_log.message_signatures import check_node

from .finding import Check, finding

SERVICES: Mapping[str, str] = {
    "admission": "nothing is decided: no job is placed, cancelled or evicted",
    "victim-selection": "no job is preempted for another",
    "eviction-executor": "decided evictions are not carried out",
}
"""The control services, and what happens without them. Running jobs continue."""
MAX_REPORTS = 10_000  # of each partition: several minutes of the reports of hundreds of nodes
LISTED_REPORTS = 1_000  # of each partition, where a list must come at once: a minute of a hundred nodes
MAX_FINDINGS = 20


async def service_checks(client: Client) -> AsyncIterator[Check]:
    """One finding for each control service: its living replicas, and pools that none of them owns."""
    pools = await client.pools()
    for role, loss in SERVICES.items():
        (group,) = PRINCIPALS[role].groups
        check = f"service {role}"
        try:
            members = await client.bus.members(group)
        except AccessDenied:
            advice = "run it with the rights of an operator"
            yield finding(check, "skipped", f"no right to see the members of the consumer group {group}", advice)
            continue
        owned = frozenset[int]().union(*(each.owned for each in members.values()))
        unowned = [name for name, pool in pools.items() if pool.partition not in owned]
        if not members:
            advice = "start it; why it ended is at the end of its log"
            yield finding(check, "wrong", f"no replica is alive: {loss}", advice)
        elif unowned:
            advice = "give all its replicas a pools file that names these pools, and see its log"
            yield finding(check, "wrong", f"no living replica owns {', '.join(unowned)}: {loss}", advice)
        else:
            yield finding(check, "ok", f"{count_text(len(members), 'replica')} alive")


async def node_checks(client: Client, state: PoolState) -> list[Check]:
    """Nodes that have been silent for a minute: since when, what runs there, and what to look at."""
    if not state.nodes:
        advice = "start a node agent on each machine: python -m bailiff_node_agent"
        return [finding(f"nodes {state.pool}", "wrong", "no node has joined: no job can run", advice)]
    now = client.now()
    heard, since, heartbeats = await last_reports(client, state)
    silent: list[tuple[Node, str]] = []
    for node in sorted(state.nodes.values(), key=lambda node: node.name):
        last = heard.get(node.name, since)
        if last is None:  # the reports may not be read, or do not go back for a minute
            if node.state != "ready":
                silent.append((node, "has not reported for a while"))
        elif now - last > SILENT_AFTER:
            before = "" if node.name in heard else "before "
            silent.append((node, f"has sent no report since {before}{time_text(last)} ({duration_text(now - last)} ago)"))
    missed = [(node, text) for node, text in silent if node.expected]
    found = [_silent_finding(node, text) for node, text in missed[:MAX_FINDINGS]]
    if len(missed) > MAX_FINDINGS:
        names = ", ".join(node.name for node, _ in missed[MAX_FINDINGS:][:MAX_FINDINGS])
        found.append(finding(f"nodes {state.pool}", "wrong", f"{len(missed) - MAX_FINDINGS} more nodes are silent: {names}"))
    retired = f", {len(silent) - len(missed)} drained and switched off" if len(silent) > len(missed) else ""
    alive = f"{len(state.nodes) - len(silent)} of {count_text(len(state.nodes), 'node')} report{retired}"
    if len(silent) == len(state.nodes):
        found.append(finding(f"nodes {state.pool}", "wrong", f"no node agent is alive: no job can run{retired}", "start them"))
    found = found or [finding(f"nodes {state.pool}", "ok", alive)]
    return [*found, *(_left_finding(each) for each in heartbeats.values() if each.left_folders), *_exposures(heartbeats)]


def _left_finding(heartbeat: NodeHeartbeat) -> Check:
    summary = f"{heartbeat.node} cannot remove what {count_text(heartbeat.left_folders, 'task')} left: {heartbeat.left_example}"
    advice = "remove it there; its agent tries again when it starts: docs/concepts/job-files.md"
    return finding(f"node {heartbeat.node}", "warn", summary, advice)


def _exposures(heartbeats: Mapping[str, NodeHeartbeat]) -> Iterator[Check]:
    """One finding for all nodes that say the same."""
    nodes: dict[str, list[str]] = {}
    for name, heartbeat in sorted(heartbeats.items()):
        if heartbeat.exposed:
            nodes.setdefault(heartbeat.exposed, []).append(name)
    advice = "run the agent as root with BAILIFF_RUN_AS=submitter, or as another user: docs/how-to/security.md"
    for exposed, names in nodes.items():
        yield finding("isolation of jobs", "warn", f"{first_names(names, MAX_FINDINGS)}: {exposed}", advice)


def _silent_finding(node: Node, silence: str) -> Check:
    tasks = f", {count_text(node.allocated.slots, 'task')} on it" if node.allocated.slots else ""
    what = {"lost": "; it is lost, and its jobs are requeued", "unreachable": "; nothing new is placed there"}.get(node.state, "")
    advice = (
        "is the machine up, does its agent run (systemctl status bailiff-node-agent, and its log), does it reach Kafka? "
        "If the machine is gone for good: bailiff drain NODE"
    )
    return finding(f"node {node.name}", "wrong", f"{node.name} {silence}{tasks}{what}", advice)


class LastReports(NamedTuple):
    """What nodes have sent last.

    Attributes:
        heard: When each node sent its newest report, µs UTC.
        since: Since when reports were read; None where they may not be, or do not go back for a minute.
        heartbeats: The newest of each node.
    """

    heard: dict[str, int]
    since: int | None
    heartbeats: dict[str, NodeHeartbeat]


async def listed_nodes(client: Client, state: PoolState) -> list[ListedNode]:
    """The rows of all nodes, with what their agents could not remove."""
    heartbeats = (await last_reports(client, state, LISTED_REPORTS)).heartbeats
    return [{**row, **_leftovers(heartbeats.get(row["node"]))} for row in node_rows(state)]


async def leftovers(client: Client, state: PoolState, node: str) -> Leftovers:
    """What the agent of this node could not remove."""
    return _leftovers((await last_reports(client, state, LISTED_REPORTS)).heartbeats.get(node))


def _leftovers(heartbeat: NodeHeartbeat | None) -> Leftovers:
    if heartbeat is None:
        return {"left_folders": None, "left_example": ""}
    return {"left_folders": heartbeat.left_folders, "left_example": heartbeat.left_example}


async def last_reports(client: Client, state: PoolState, most: int = MAX_REPORTS) -> LastReports:
    """The newest report of each node, among the newest `most` of each partition.

    In a pool with a root key that is, for a node that admission does not find alive, the time that the node has signed: a kept
    report that somebody sends again shows nobody as alive.
    """
    topic = topics.NODE_REPORTS.name
    try:
        spans = await client.bus.spans(topic)
    except (TopicMissing, AccessDenied):
        return LastReports({}, None, {})
    tails = {number: Span(max(span.begin, span.end - most), span.end) for number, span in spans.items()}
    try:
        messages = [message async for message in client.messages(topic, tails)]
    except AccessDenied:
        return LastReports({}, None, {})
    found = LastReports({}, None, {})
    for message in sorted(messages, key=lambda message: message.time, reverse=True):
        _take(message, state, found)
    cut = any(tails[number].begin > span.begin for number, span in spans.items())
    since = min((message.time for message in messages), default=0) if cut else 0
    return found._replace(since=since if since < client.now() - SILENT_AFTER else None)


def _take(message: Message, state: PoolState, found: LastReports) -> None:
    """Note when this message was sent, if it is a report to the pool, of the node that it names, and newer than those found."""
    try:
        envelope = unwrap(message, accept=(ReportBody,))
        report = envelope.body
        if envelope.pool != state.pool or not isinstance(report, ReportBody) or report.node not in state.node_numbers:
            return
        is_ready = state.nodes[state.node_numbers[report.node]].state == "ready"  # admission takes its reports as new
        sent = message.time if is_ready or not state.root_key else min(envelope.time, message.time)
        is_heartbeat = isinstance(report, NodeHeartbeat) and report.node not in found.heartbeats
        if sent <= found.heard.get(report.node, 0) and not is_heartbeat:
            return
        check_node(envelope, state, report.node)
    except InvalidMessage:
        return
    found.heard[report.node] = max(sent, found.heard.get(report.node, 0))
    if isinstance(report, NodeHeartbeat):
        found.heartbeats.setdefault(report.node, report)
