"""The one registry of topics: what each is keyed by, who writes it, what it may hold and for how long.

Topic creation, the start-up check and the generated reference all come from here. Nothing here talks to Kafka by
itself; only `create_topics` and what it imports does.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from .messages import (
    AcceptTruncation,
    Alarm,
    ApplyPolicy,
    BegunEviction,
    CancelJob,
    ClearDevice,
    ClearQuarantine,
    DeadLetter,
    DeviceIsBroken,
    DeviceIsClean,
    DeviceIsDirty,
    DeviceWorks,
    DrainNode,
    Evict,
    EvictionStageReached,
    EvictJob,
    Fence,
    GivenUpPlan,
    LogSealed,
    MeasuredWindow,
    MigrateJob,
    NodeAnnounced,
    NodeHeartbeat,
    NodeTelemetry,
    PauseJob,
    Proposal,
    ReplaceNode,
    ReturnNode,
    RollupWindow,
    SaveTogether,
    ScaleJob,
    SealingKey,
    SealsSetAside,
    SendInventory,
    SetJob,
    Spare,
    StartTask,
    SubmitJob,
    TaskEnded,
    TaskHasProgressed,
    TaskHasResumed,
    TaskIsIdle,
    TaskIsReleased,
    TaskIsRunning,
    TaskNotSpared,
    TaskNotStarted,
    TaskOverShare,
    TaskWasSpared,
    UndrainNode,
    UnpauseJob,
)
from .port import BusUnavailable, Headers

if TYPE_CHECKING:
    from .settings import KafkaSettings

KIB = 1024
INPUT_LIMIT = 256 * KIB
AUDIT_LIMIT = 900 * KIB
DEAD_LETTER_LIMIT = 2048 * KIB
ENVELOPE_ROOM = 16 * KIB  # Kafka counts its own framing, and an input's headers come on top of its value

REPLICATED_FROM = 3  # with so many brokers every topic has three copies, two of which must have a record
COPIES_MEANT = "offsets.topic.replication.factor"  # of a broker


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `schemas`: CloudEvents types, or `audit` for the types of `bailiff_core.records`.

    retention: None is for ever. max_message_bytes: of one message, headers and key included. partitions: whoever reads a
    topic reads all of it, and each partition is named in every fetch and every answer, so one is best; more do no harm.
    """

    name: str
    key: str
    written_by: tuple[str, ...]
    schemas: tuple[str, ...]
    retention: timedelta | None
    max_message_bytes: int = INPUT_LIMIT + ENVELOPE_ROOM
    partitions: int | Literal["one per domain"] = 1
    settings: Mapping[str, str] = field(default_factory=dict)

    def partition_count(self, domains: int) -> int:
        """How many partitions it has in an installation of so many domains."""
        return domains if self.partitions == "one per domain" else self.partitions

    def settings_with(self, brokers: int) -> dict[str, str]:
        """All settings by Kafka's names. Append times are the broker's: liveness and durations are judged by them."""
        kept = -1 if self.retention is None else self.retention // timedelta(milliseconds=1)
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": str(kept),
            "retention.bytes": "-1",
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self.max_message_bytes + ENVELOPE_ROOM),
            "unclean.leader.election.enable": "false",
            **self.settings,
        }
        if brokers >= REPLICATED_FROM:
            settings["min.insync.replicas"] = "2"
        elif self is AUDIT:
            settings["flush.messages"] = "1"  # one broker: an acknowledged record must survive a power loss
        return settings


ASKED = (
    SubmitJob, CancelJob, ScaleJob, SetJob, EvictJob, PauseJob, UnpauseJob, MigrateJob,
    ApplyPolicy, DrainNode, UndrainNode, ReplaceNode, ReturnNode, AcceptTruncation, ClearQuarantine,
)  # fmt: skip
REQUESTS = Topic(
    name="bailiff.requests",
    key="domain",
    written_by=("client",),
    schemas=tuple(body.TYPE for body in ASKED),
    retention=timedelta(days=30),
)
AUDIT = Topic(
    name="bailiff.audit",
    key="domain",
    written_by=("admission",),
    schemas=("audit",),
    retention=None,
    max_message_bytes=AUDIT_LIMIT,
    partitions="one per domain",
)
JOB_SPECS = Topic(
    name="bailiff.job-specs",
    key="domain/job/digest",
    written_by=("admission",),
    schemas=("JobSpec",),
    retention=None,
    settings={
        "cleanup.policy": "compact",
        # an erased spec is gone for good within days, not when a segment happens to fill
        "segment.ms": str(timedelta(days=1) // timedelta(milliseconds=1)),
        "min.cleanable.dirty.ratio": "0.01",
    },
)
PROPOSALS = Topic(
    name="bailiff.proposals",
    key="domain",
    written_by=("victim_selection",),
    schemas=(Proposal.TYPE,),
    retention=timedelta(days=7),
)
EVICTION_PROGRESS = Topic(
    name="bailiff.eviction-progress",
    key="domain",
    written_by=("eviction_executor",),
    schemas=(BegunEviction.TYPE, GivenUpPlan.TYPE),
    retention=timedelta(days=7),
)
NODE_COMMANDS = Topic(
    name="bailiff.node-commands",
    key="node",
    written_by=("admission", "eviction_executor"),
    schemas=tuple(body.TYPE for body in (Fence, StartTask, Evict, SaveTogether, Spare, SendInventory, ClearDevice)),
    retention=timedelta(days=7),
)
NODE_REPORTS = Topic(
    name="bailiff.node-reports",
    key="domain",
    written_by=("node_agent",),
    schemas=tuple(
        body.TYPE
        for body in (
            NodeAnnounced, NodeHeartbeat, TaskIsRunning, TaskNotStarted, EvictionStageReached,
            TaskEnded, TaskIsReleased, TaskWasSpared, TaskNotSpared, TaskHasProgressed, TaskHasResumed, DeviceIsDirty,
            DeviceIsClean, DeviceIsBroken, DeviceWorks, TaskOverShare, TaskIsIdle,
        )
    ),
    retention=timedelta(days=7),
)  # fmt: skip
JOB_LOGS = Topic(name="bailiff.job-logs", key="job", written_by=("node_agent",), schemas=("text",), retention=timedelta(days=1))
TELEMETRY = Topic(
    name="bailiff.telemetry",
    key="domain",  # one partition has all of a domain, in order
    written_by=("node_agent",),
    schemas=(NodeTelemetry.TYPE,),
    retention=timedelta(days=1),
)
ALARMS = Topic(
    name="bailiff.alarms",
    key="domain",
    written_by=("any",),
    schemas=(Alarm.TYPE,),
    retention=timedelta(days=90),
)
SEALS = Topic(
    name="bailiff.seals",
    key="domain",
    written_by=("auditor",),
    schemas=(SealingKey.TYPE, LogSealed.TYPE, SealsSetAside.TYPE),
    retention=None,
    partitions=1,
)
ROLLUPS = Topic(
    name="bailiff.rollups",
    key="domain/window",
    written_by=("rollup",),
    schemas=(RollupWindow.TYPE, MeasuredWindow.TYPE),
    retention=timedelta(days=90),
)
ROLLUP_STATE = Topic(
    name="bailiff.rollup-state",
    key="domain",
    written_by=("rollup",),
    schemas=("RollupState",),
    retention=None,
    max_message_bytes=AUDIT_LIMIT,
    partitions="one per domain",  # as the log's: who counts a domain has its sums
    settings={"cleanup.policy": "compact"},
)
DEAD_LETTERS = Topic(
    name="bailiff.dead-letters",
    key="source topic",
    written_by=("any",),
    schemas=(DeadLetter.TYPE,),
    retention=timedelta(days=30),
    max_message_bytes=DEAD_LETTER_LIMIT,
)

TOPICS: Mapping[str, Topic] = {
    topic.name: topic
    for topic in (
        REQUESTS, AUDIT, JOB_SPECS, PROPOSALS, EVICTION_PROGRESS, NODE_COMMANDS, NODE_REPORTS, JOB_LOGS, TELEMETRY, ALARMS,
        SEALS, ROLLUPS, ROLLUP_STATE, DEAD_LETTERS,
    )
}  # fmt: skip


def message_size(key: bytes | None, headers: Headers, value: bytes) -> int:
    """The bytes of a message that are the sender's own."""
    size = len(key or b"") + len(value)
    for name, content in headers:
        size += (len(name) if name.isascii() else len(name.encode())) + len(content)
    return size


def check_size(topic: str, key: bytes | None, headers: Headers, value: bytes) -> None:
    """Raise `ValueError` for a message above its topic's limit.

    Asked before anything is sent: a broker that refuses one message makes the whole producer unusable.
    """
    size = message_size(key, headers, value)
    limit = TOPICS[topic].max_message_bytes if topic in TOPICS else DEAD_LETTER_LIMIT
    if size > limit:
        raise ValueError(f"a message of {size} bytes is too large for {topic}, which takes up to {limit}")


def check_audit_settings(settings: Mapping[str, str], brokers: int) -> list[str]:
    """What is wrong with the audit topic, one sentence each; a service that gets any refuses to run.

    settings: as `Bus.topic_settings` gives them. brokers: those that live; a topic with more copies had more of them.
    """
    brokers = max(brokers, int(settings.get("replication", 0)))
    needed = {
        name: value
        for name, value in AUDIT.settings_with(brokers).items()
        if name not in ("max.message.bytes", "min.insync.replicas")
    }
    wrong = [
        f"{AUDIT.name}: {name} is {settings.get(name, 'not set')}, needed is {value}."
        for name, value in needed.items()
        if settings.get(name) != value
    ]
    at_least = {"max.message.bytes": AUDIT.max_message_bytes + ENVELOPE_ROOM}
    if brokers >= REPLICATED_FROM:
        at_least |= {"replication": REPLICATED_FROM, "min.insync.replicas": 2}
    wrong += [
        f"{AUDIT.name}: {name} is {settings.get(name, 'not set')}, needed is {least} or more."
        for name, least in at_least.items()
        if int(settings.get(name, 0)) < least
    ]
    return wrong


async def create_topics(bootstrap: "str | KafkaSettings", domains: int, replication: int | None = None) -> list[str]:
    """Create what is missing, and grow what has one partition per domain. Returns what was done.

    May run again at any time, also beside another that runs. Settings of topics that exist are left alone: see
    `check_audit_settings`. Raises `BusUnavailable`, also while a Kafka that is meant for copies lacks brokers for them:
    topics with fewer copies would stay so.
    """
    from aiokafka.admin import NewPartitions, NewTopic  # here, so that knowing the topics needs no Kafka client

    from .kafka import connected_admin, copies_meant, refusals
    from .settings import KafkaSettings

    settings = KafkaSettings(bootstrap=bootstrap) if isinstance(bootstrap, str) else bootstrap
    done = []
    async with connected_admin(settings) as admin:
        living = len((await admin.describe_cluster())["brokers"])
        brokers = max(living, await _most_copies(admin))  # one may be away: no topic gets fewer copies for that
        copies = replication or (REPLICATED_FROM if brokers >= REPLICATED_FROM else 1)
        found = await _partition_counts(admin)
        missing = [topic for topic in TOPICS.values() if topic.name not in found]
        if missing and replication is None and living < REPLICATED_FROM <= await copies_meant(admin):
            raise BusUnavailable(
                f"Kafka at {settings.bootstrap} is set up for {REPLICATED_FROM} copies ({COPIES_MEANT}) and {living} of its "
                f"brokers answer: start the others first, or say how many copies the topics get (--replication)"
            )
        if missing:
            answer = await admin.create_topics(
                [
                    NewTopic(
                        topic.name,
                        topic.partition_count(domains),
                        copies,
                        topic_configs=topic.settings_with(brokers),
                    )
                    for topic in missing
                ]
            )
            refusals(answer.topic_errors, but_for="TopicAlreadyExistsError")
            done += [f"created {topic.name}" for topic in missing]
        for topic in TOPICS.values():
            has = found.get(topic.name, domains)
            if topic.partitions == "one per domain" and has < domains:
                await admin.create_partitions({topic.name: NewPartitions(domains)})
                done.append(f"{topic.name} has {domains} partitions now, instead of {has}")
        await _wait_until_known(admin, domains)
    return done


async def _wait_until_known(admin: Any, domains: int) -> None:
    """The controller has agreed; the brokers are about to hear of it."""
    while True:
        found = await _partition_counts(admin)
        if all(found.get(topic.name, 0) >= topic.partition_count(domains) for topic in TOPICS.values()):
            return
        await asyncio.sleep(0.05)


async def _most_copies(admin: Any) -> int:
    """Of a topic that is ours and exists; 0 before there is any."""
    ours = [topic for topic in await admin.describe_topics(None) if topic["topic"] in TOPICS]
    return max((len(partition["replicas"]) for topic in ours for partition in topic["partitions"]), default=0)


async def _partition_counts(admin: Any) -> dict[str, int]:
    """By topic: how many of its partitions have a leader."""
    return {
        topic["topic"]: sum(partition["leader"] >= 0 for partition in topic["partitions"])
        for topic in await admin.describe_topics(None)
    }
