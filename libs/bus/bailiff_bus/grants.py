"""Who may do what in Kafka: the principals and their rights, for commands, documentation, checks and tests.

The rights follow the code: a service has what it uses and nothing else. Nobody uses transactions, so no principal has a
transactional id. The HTTP API reads PostgreSQL only and has no principal.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from . import topics
from .topics import TOPICS, Topic

PREFIX = "bailiff-"
ResourceType = Literal["topic", "group", "cluster"]
CLUSTER = "kafka-cluster"  # Kafka's name of the only resource of this type


class Operation(IntEnum):
    """Operations of Kafka's access lists, with Kafka's numbers."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    @property
    def title(self) -> str:
        """Kafka's name, such as `DescribeConfigs`."""
        return self.name.title().replace("_", "")


IMPLIED: Mapping[Operation, Operation] = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
"""What Kafka allows in addition where the first is allowed."""

TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One right: an operation on one resource."""

    resource: ResourceType
    name: str
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation.title} on {self.resource} {self.name}"


@dataclass(frozen=True, slots=True)
class Principal:
    """One user of Kafka. role: as in `admission`. checks: topics whose settings it reads. watches: groups whose members it sees.

    creates_topics: it may create the registry's topics, add partitions to those with one per pool, read the brokers' settings.
    """

    role: str
    purpose: str
    writes: tuple[Topic, ...] = ()
    reads: tuple[Topic, ...] = ()
    checks: tuple[Topic, ...] = ()
    groups: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    creates_topics: bool = False

    @property
    def name(self) -> str:
        """The user's name in Kafka: of a SCRAM user, and the common name (CN) of a certificate."""
        return PREFIX + self.role

    def grants(self) -> Iterator[Grant]:
        """Everything that it is granted. What Kafka implies is not listed."""
        for topic in TOPICS.values():
            if topic in self.reads:
                yield Grant("topic", topic.name, Operation.READ)
            if topic in self.writes:
                yield Grant("topic", topic.name, Operation.WRITE)
            if topic in self.checks:
                yield Grant("topic", topic.name, Operation.DESCRIBE_CONFIGS)
            if self.creates_topics:
                yield Grant("topic", topic.name, Operation.CREATE)
                yield Grant("topic", topic.name, Operation.DESCRIBE)
            if self.creates_topics and topic.partitions == "one per pool":
                yield Grant("topic", topic.name, Operation.ALTER)  # to add partitions
        for group in self.groups:
            yield Grant("group", group, Operation.READ)
        for group in self.watches:
            yield Grant("group", group, Operation.DESCRIBE)
        if self.creates_topics:
            yield Grant("cluster", CLUSTER, Operation.DESCRIBE)  # without it Kafka does not say what else is allowed
            yield Grant("cluster", CLUSTER, Operation.DESCRIBE_CONFIGS)

    def allowed(self) -> frozenset[Grant]:
        """The grants and what Kafka implies by them."""
        granted = frozenset(self.grants())
        implied = {Grant(grant.resource, grant.name, IMPLIED[grant.operation]) for grant in granted if grant.operation in IMPLIED}
        return granted | implied


PRINCIPALS: Mapping[str, Principal] = {
    principal.role: principal
    for principal in (
        Principal(
            role="admission",
            purpose="the only writer of the audit log",
            writes=(
                topics.AUDIT,
                topics.JOB_SPECS,
                topics.JOB_SPEC_COPIES,
                topics.NODE_COMMANDS,
                topics.DEAD_LETTERS,
                topics.ALARMS,
            ),
            # node commands: after a takeover it compares them with the log, which may have lost its end
            reads=(
                topics.REQUESTS,
                topics.PROPOSALS,
                topics.EVICTION_PROGRESS,
                topics.NODE_REPORTS,
                topics.NODE_COMMANDS,
                topics.JOB_SPECS,
                topics.AUDIT,
            ),
            checks=(topics.AUDIT,),
            groups=("bailiff-admission",),
        ),
        Principal(
            role="victim-selection",
            purpose="finds victims",
            writes=(topics.PROPOSALS, topics.ALARMS),
            reads=(topics.AUDIT,),
            checks=(topics.AUDIT,),
            groups=("bailiff-victim-selection",),
        ),
        Principal(
            role="eviction-executor",
            purpose="carries out evictions",
            writes=(topics.EVICTION_PROGRESS, topics.NODE_COMMANDS, topics.ALARMS),
            reads=(topics.AUDIT,),
            checks=(topics.AUDIT,),
            groups=("bailiff-eviction-executor",),
        ),
        Principal(
            role="node-agent",
            purpose="runs tasks",
            writes=(topics.NODE_REPORTS, topics.JOB_LOGS, topics.TELEMETRY),
            reads=(topics.NODE_COMMANDS,),
        ),
        Principal(
            role="auditor",
            purpose="archives and seals the log",
            writes=(topics.SEALS, topics.ALARMS),
            reads=(topics.AUDIT, topics.SEALS, topics.COSIGNATURES),
            checks=(topics.AUDIT,),
        ),
        Principal(
            role="rollup",
            purpose="aggregates the log and telemetry",
            writes=(topics.ROLLUPS, topics.ROLLUP_STATE),
            reads=(topics.AUDIT, topics.TELEMETRY, topics.ROLLUP_STATE),  # its state is Faust's changelog
            checks=(topics.AUDIT,),
            groups=("bailiff-rollup",),
        ),
        Principal(
            role="console",
            purpose="the web page; sends requests in people's names",
            writes=(topics.REQUESTS,),
            reads=(topics.AUDIT, topics.JOB_LOGS, topics.JOB_SPEC_COPIES, topics.TELEMETRY, topics.ALARMS, topics.NODE_REPORTS),
        ),
        Principal(
            role="kubernetes-bridge",
            purpose="submits labelled workloads of Kubernetes in their users' names",
            writes=(topics.REQUESTS,),
            reads=(topics.AUDIT,),
        ),
        Principal(role="notifier", purpose="`bailiff notify`", reads=(topics.AUDIT,)),
        Principal(
            role="client",
            purpose="people and programs that submit jobs",
            writes=(topics.REQUESTS,),
            reads=(topics.AUDIT, topics.SEALS, topics.COSIGNATURES, topics.JOB_LOGS, topics.JOB_SPEC_COPIES),
        ),
        Principal(
            role="operator",
            purpose="creates topics, erases job specs, checks everything (`bailiff doctor`)",
            writes=(topics.REQUESTS, topics.JOB_SPECS, topics.JOB_LOGS),  # job logs: `bailiff doctor --probe`
            reads=(
                topics.AUDIT,
                topics.SEALS,
                topics.COSIGNATURES,
                topics.JOB_LOGS,
                topics.JOB_SPECS,
                topics.JOB_SPEC_COPIES,
                topics.DEAD_LETTERS,
                topics.ALARMS,
                topics.ROLLUPS,
                topics.NODE_REPORTS,
            ),
            checks=tuple(TOPICS.values()),
            watches=("bailiff-admission", "bailiff-victim-selection", "bailiff-eviction-executor"),
            creates_topics=True,
        ),
        Principal(role="witness", purpose="cosigns the seals", writes=(topics.COSIGNATURES,), reads=(topics.SEALS,)),
    )
}


def principal_of(user: str | None) -> Principal | None:
    """The principal with this user name or role; None for another user."""
    return PRINCIPALS.get((user or "").removeprefix(PREFIX))


def readers(topic: Topic) -> tuple[str, ...]:
    """Roles that may read the topic."""
    return tuple(principal.role for principal in PRINCIPALS.values() if topic in principal.reads)


def writers(topic: Topic) -> tuple[str, ...]:
    """Roles that may write the topic."""
    return tuple(principal.role for principal in PRINCIPALS.values() if topic in principal.writes)
