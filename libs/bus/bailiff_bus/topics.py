"""The registry of topics: key, message types, retention, limits. Who reads and writes them: `grants`.

Topic creation (`topic_admin`), the start-up check and the generated reference use it. No connection to Kafka here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from .port import Headers

KIB = 1024
INPUT_LIMIT = 256 * KIB
AUDIT_LIMIT = 900 * KIB
DEAD_LETTER_LIMIT = 2048 * KIB
ENVELOPE_OVERHEAD = 16 * KIB  # Kafka's framing and the headers of an input count in addition to its value

COMPRESSED = {"compression.type": "zstd"}
"""The broker compresses what is appended at once: of logs that are kept for ever, and of messages that are sent all the time."""
REPLICATED_BROKERS = 3  # from this many brokers on: replication factor 3, min.insync.replicas 2
REPLICATION_SETTING = "offsets.topic.replication.factor"  # broker setting


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. messages: names of message classes, each with all below it; or of another content, as `audit`.

    signed_by: whose signature a reader wants. otherwise: what a reader does with what is not signed so, or too much. Both are for
    the table in the reference: a topic that any service reads has a limit, or a reason for none.
    retention: None is unlimited. max_message_bytes: of one message, including headers and key. partitions: consumers read
    all partitions of a topic and each one adds to every fetch, so one is best; more are allowed.
    """

    name: str
    key: str
    messages: tuple[str, ...]
    retention: timedelta | None
    signed_by: str
    otherwise: str
    max_message_bytes: int = INPUT_LIMIT + ENVELOPE_OVERHEAD
    partitions: int | Literal["one per pool"] = 1
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def schemas(self) -> tuple[str, ...]:
        """CloudEvents types of its messages, or the name of another content: `audit` for the types of `bailiff_core.records`."""
        from bailiff_core.model.message import MESSAGE_TYPES  # imported here: readers load no message's model

        from . import messages  # noqa: F401 - registers them

        bases = {name: {base.__name__ for base in kind.__mro__} for name, kind in MESSAGE_TYPES.items()}
        found = tuple(name for name, names in bases.items() if not names.isdisjoint(self.messages))
        return found or self.messages

    def partition_count(self, pools: int) -> int:
        """Number of partitions in an installation with this many pools."""
        return pools if self.partitions == "one per pool" else self.partitions

    def settings_for(self, brokers: int) -> dict[str, str]:
        """All settings by Kafka's names. Timestamps are the broker's append times: liveness and durations use them."""
        retention_ms = -1 if self.retention is None else self.retention // timedelta(milliseconds=1)
        settings = {
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
            "retention.bytes": "-1",
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self.max_message_bytes + ENVELOPE_OVERHEAD),
            "unclean.leader.election.enable": "false",
            **self.settings,
        }
        if brokers >= REPLICATED_BROKERS:
            settings["min.insync.replicas"] = "2"
        elif self is AUDIT:
            settings["flush.messages"] = "1"  # one broker: an acknowledged record must survive a power loss
        return settings


REQUESTS = Topic(
    name="bailiff.requests",
    key="pool",
    messages=("RequestBody",),
    retention=timedelta(days=30),
    signed_by="whoever asks, or console or bridge for them; where `identity.accept` permits it, nobody",
    otherwise=(
        "users take turns, unsigned ones after the others; 10,000 requests and 16 MiB of each rank wait, more is rejected, and "
        "so is what is above [limits](../reference/limits.md), on record (`tests/property/test_turns.py`, "
        "`tests/process/test_flood.py`)"
    ),
)
AUDIT = Topic(
    name="bailiff.audit",
    key="pool",
    messages=("audit",),
    retention=None,
    max_message_bytes=AUDIT_LIMIT,
    partitions="one per pool",
    settings=COMPRESSED,
    signed_by="admission",
    otherwise=(
        "a record that is not signed, or does not continue the chain, is an orphan: passed over one by one, counted, "
        "and an alarm (`tests/unit/bus/test_signed_log.py`)"
    ),
)
JOB_SPECS = Topic(
    name="bailiff.job-specs",
    key="pool/job/digest",
    messages=("JobSpec",),
    retention=None,
    settings={
        "cleanup.policy": "compact",
        # compaction removes an erased spec within days, independent of the traffic
        "segment.ms": str(timedelta(days=1) // timedelta(milliseconds=1)),
        "min.cleanable.dirty.ratio": "0.01",
    },
    signed_by="nobody: encrypted, and bound to the job by the digest in its record",
    otherwise=(
        "a false one is passed over, and the true one stored again; of specs that no job has 64 MiB are read "
        "(`tests/unit/admission/test_job_specs.py`)"
    ),
)
JOB_SPEC_COPIES = Topic(
    name="bailiff.job-spec-copies",
    key="pool/grant",
    messages=("JobSpecCopy",),
    retention=timedelta(days=1),
    max_message_bytes=AUDIT_LIMIT,
    signed_by="nobody: encrypted for one reader, and bound to the job by its digest",
    otherwise=(
        "read from the request on, for seconds; what is of another grant or cannot be decrypted is passed over "
        "(`tests/unit/admission/test_spec_copies.py`)"
    ),
)
PROPOSALS = Topic(
    name="bailiff.proposals",
    key="pool",
    messages=("ProposalBatch",),
    retention=timedelta(days=7),
    signed_by="victim selection",
    otherwise=(
        "rejected (`not-signed`); records of rejections are limited by sender (`tests/unit/test_signed_pool.py`, "
        "`tests/property/test_rejections.py`)"
    ),
)
EVICTION_PROGRESS = Topic(
    name="bailiff.eviction-progress",
    key="pool",
    messages=("StartEviction", "AbandonPreemption"),
    retention=timedelta(days=7),
    signed_by="eviction executor",
    otherwise="as proposals",
)
NODE_COMMANDS = Topic(
    name="bailiff.node-commands",
    key="node",
    messages=("CommandBody",),
    retention=timedelta(days=7),
    signed_by="admission, eviction executor",
    otherwise=(
        "not obeyed, counted (`commands-refused`); a new writer reads the newest 5,000 "
        "(`tests/unit/test_signed_pool.py`, `tests/unit/admission/test_truncation.py`)"
    ),
)
NODE_REPORTS = Topic(
    name="bailiff.node-reports",
    key="pool",
    messages=("ReportBody",),
    retention=timedelta(days=7),
    settings=COMPRESSED,
    signed_by="the node, with the key that it was enrolled with",
    otherwise=(
        "rejected as proposals; of a node few incarnations are remembered; doctor and lists read the newest 10,000 "
        "(`tests/unit/admission/test_agent_values.py`, `tests/unit/test_stolen_node_key.py`)"
    ),
)
JOB_LOGS = Topic(
    name="bailiff.job-logs",
    key="job",
    messages=("text",),
    retention=timedelta(days=1),
    signed_by="nobody: text for people, of which nothing depends",
    otherwise="read one after another; whoever may write it adds lines. The console goes back 50,000 messages",
)
TELEMETRY = Topic(
    name="bailiff.telemetry",
    key="pool",  # all messages of a pool in one partition, in order
    messages=("NodeTelemetry",),
    retention=timedelta(days=1),
    settings=COMPRESSED,
    signed_by="the node",
    otherwise=(
        "neither counted nor shown; measurements that no node can have made are left out "
        "(`tests/unit/test_stolen_node_key.py`, `tests/unit/rollup/test_telemetry_rollup.py`)"
    ),
)
ALARMS = Topic(
    name="bailiff.alarms",
    key="pool",
    messages=("Alarm",),
    retention=timedelta(days=90),
    signed_by="admission, victim selection, eviction executor, auditor where they have certificates",
    otherwise=(
        "listed after those that are signed; of what comes at once a part is read, which is an alarm (`alarms-unread`), "
        "and 100 kinds of each sender are kept (`tests/unit/client/test_rejections.py`)"
    ),
)
SEALS = Topic(
    name="bailiff.seals",
    key="pool",
    messages=("SealingKey", "LogSealed", "SealsInvalidated"),
    retention=None,
    partitions=1,
    signed_by="the sealing key, which the one before signed",
    otherwise=(
        "passed over and counted; an alarm (`seal-foreign`), of the auditor 25 of a kind an hour. `verify` and `export` read all "
        "of it into memory: who may write it is for access lists (`tests/unit/test_altered_logs.py`, "
        "`tests/unit/test_auditor_alarms.py`)"
    ),
)
COSIGNATURES = Topic(
    name="bailiff.cosignatures",
    key="pool",
    messages=("CheckpointCosigned", "CheckpointRefused"),
    retention=None,
    partitions=1,
    signed_by="the witness; what is cosigned also the sealing key",
    otherwise=(
        "passed over; of witnesses that are not named the first twenty count, each message once "
        "(`tests/integration/test_cosignatures.py`)"
    ),
)
ROLLUPS = Topic(
    name="bailiff.rollups",
    key="pool/window",
    messages=("RollupWindow", "TelemetryWindow"),
    retention=timedelta(days=90),
    signed_by="nobody: figures, which the log yields again",
    otherwise="no part of Bailiff reads it",
)
ROLLUP_STATE = Topic(
    name="bailiff.rollup-state",
    key="pool",
    messages=("RollupState",),
    retention=None,
    max_message_bytes=AUDIT_LIMIT,
    partitions="one per pool",  # as the audit log: the replica that owns a pool's partition owns its roll-up state
    settings={
        **COMPRESSED,
        "cleanup.policy": "compact",
        # the state of a pool is written again and again; compaction leaves the last one of a closed segment
        "segment.ms": str(timedelta(hours=1) // timedelta(milliseconds=1)),
    },
    signed_by="nobody: figures, which the log yields again",
    otherwise=(
        "believed: who may write it is for access lists. Without the topic all is counted anew (`tests/process/test_rollup.py`)"
    ),
)
DEAD_LETTERS = Topic(
    name="bailiff.dead-letters",
    key="source topic",
    messages=("DeadLetter",),
    retention=timedelta(days=30),
    max_message_bytes=DEAD_LETTER_LIMIT,
    signed_by="nobody: a copy of what was rejected",
    otherwise="no part of Bailiff reads it",
)

TOPICS: Mapping[str, Topic] = {topic.name: topic for topic in list(globals().values()) if isinstance(topic, Topic)}
"""Every topic declared above, in this order."""


def message_size(key: bytes | None, headers: Headers, value: bytes) -> int:
    """Size of a message without Kafka's framing, bytes."""
    return len(key or b"") + len(value) + sum([len(name.encode()) + len(content) for name, content in headers])


def check_size(topic: str, key: bytes | None, headers: Headers, value: bytes) -> None:
    """Raise `ValueError` for a message above its topic's limit.

    Checked before sending: a message that the broker refuses makes the whole producer unusable.
    """
    size = message_size(key, headers, value)
    limit = TOPICS[topic].max_message_bytes if topic in TOPICS else DEAD_LETTER_LIMIT
    if size > limit:
        raise ValueError(f"message of {size} bytes exceeds the limit of {topic}, {limit} bytes")


def check_audit_settings(settings: Mapping[str, str], brokers: int) -> list[str]:
    """Faults in the settings of the audit topic, one sentence each; with any, a service refuses to start.

    settings: from `Bus.topic_settings`. brokers: number of running ones; a topic with more replicas was created with more.
    """
    brokers = max(brokers, int(settings.get("replication", 0)))
    needed = {
        name: value
        for name, value in AUDIT.settings_for(brokers).items()
        if name not in ("max.message.bytes", "min.insync.replicas", "compression.type")
    }
    faults = [
        f"{AUDIT.name}: {name} is {settings.get(name, 'not set')}, expected {value}."
        for name, value in needed.items()
        if settings.get(name) != value
    ]
    minimums = {"max.message.bytes": AUDIT.max_message_bytes + ENVELOPE_OVERHEAD}
    if brokers >= REPLICATED_BROKERS:
        minimums |= {"replication": REPLICATED_BROKERS, "min.insync.replicas": 2}
    faults += [
        f"{AUDIT.name}: {name} is {settings.get(name, 'not set')}, expected at least {minimum}."
        for name, minimum in minimums.items()
        if int(settings.get(name, 0)) < minimum
    ]
    return faults
