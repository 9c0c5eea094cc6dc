"""Membership in consumer groups, which assign pools to replicas."""

import asyncio
from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import GroupCoordinatorNotAvailableError, GroupLoadInProgressError, KafkaError, NotCoordinatorForGroupError

from bailiff_bus.assignment import Assigned, assign
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_bus.lazy_logger import lazy_logger
from bailiff_bus.port import BusUnavailable

from .admin import raise_for_error
from .errors import broker_call, client_arguments, finish_within

log = lazy_logger()

POLL_MS = 60_000  # an error ends a poll at once
COORDINATOR_STARTS = GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError
REBALANCING = "PreparingRebalance", "CompletingRebalance"
RETRY_S = 0.1


class OwnerAndStandby(AbstractPartitionAssignor):  # type: ignore[misc]
    """Kafka's protocol around `assign`: a member sends with its join what it had, and gets what it has to stand by for."""

    name, VERSION = "bailiff-owner-and-standby", 0

    def __init__(self, topic: str) -> None:
        self.assigned, self._topic = Assigned(), topic

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Sent with the join."""
        return ConsumerProtocolMemberMetadata(self.VERSION, list(topics), self.assigned.to_bytes())

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """What every member gets. Runs in the member that Kafka calls the leader of the group."""
        before = {name: Assigned.from_bytes(each.user_data) for name, each in members.items()}
        found = assign(cluster.partitions_for_topic(self._topic) or (), before)
        return {
            name: ConsumerProtocolMemberAssignment(self.VERSION, [(self._topic, sorted(each.owned))], each.to_bytes())
            for name, each in found.items()
        }

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """What this member got."""
        self.assigned = Assigned.from_bytes(assignment.user_data)


async def group_members(admin: AIOKafkaAdminClient, group: str) -> Mapping[str, Assigned]:
    """Its members as the broker knows them. While they are being assigned it waits, until the caller's timeout."""
    while True:
        try:
            (answer,) = await admin.describe_consumer_groups([group])
            ((code, _, state, _, _, members, *_),) = answer.groups
            raise_for_error([(group, code, None)])
        except COORDINATOR_STARTS:  # the first question about a group makes Kafka create the topic of groups
            state = REBALANCING[0]
        if state not in REBALANCING:
            return {member[0]: _owned(member[-1]) for member in members}
        await asyncio.sleep(RETRY_S)


def _owned(assignment: bytes) -> Assigned:
    """What the leader of the group gave to this member."""
    decoded = ConsumerProtocolMemberAssignment.decode(assignment)
    owned = frozenset(partition for _, partitions in decoded.assignment for partition in partitions)
    return Assigned(owned, Assigned.from_bytes(decoded.user_data).standby)


class KafkaGroupMembership(ConsumerRebalanceListener):  # type: ignore[misc]
    """Membership in a consumer group that fetches no messages.

    A rebalance revokes all partitions for a moment; `assigned` keeps the last assignment until the new one is known.
    Two live members with the same `instance` fence each other without end.
    """

    def __init__(self, settings: KafkaSettings, group: str, topic: str, instance: str | None) -> None:
        self._settings = settings
        self._group = group
        self._assignor = OwnerAndStandby(topic)
        self._consumer = AIOKafkaConsumer(
            **client_arguments(settings) | {"request_timeout_ms": settings.request_timeout_ms + settings.session_timeout_ms},
            group_id=group,
            group_instance_id=instance,
            partition_assignment_strategy=(self._assignor, RoundRobinPartitionAssignor),
            enable_auto_commit=False,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.session_timeout_ms // 3,
            consumer_timeout_ms=POLL_MS,  # of the fetcher, which has nothing to fetch
        )
        self._consumer.subscribe([topic], listener=self)
        self._assigned = self._reported = Assigned()
        self._error: KafkaError | None = None
        self._changed = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def assigned(self) -> Assigned:
        """The partitions of this member."""
        return self._assigned

    async def start(self) -> None:
        """Join the group and wait for the first assignment."""
        try:
            async with broker_call(
                self._settings, f"complete joining group {self._group}", extra=self._settings.session_timeout_ms / 1000
            ):
                await self._consumer.start()
                await self._changed.wait()
        except BaseException:
            await self.close()
            raise
        self._reported = self._assigned
        self._polling = asyncio.create_task(self._poll())

    async def changed(self) -> Assigned:
        """Wait until `assigned` differs from what this call returned last, and return it."""
        while self._assigned == self._reported:
            if self._error is not None:
                error, self._error = self._error, None
                raise BusUnavailable(f"Kafka at {self._settings.bootstrap}: not a member of group {self._group}: {error!r}")
            self._changed.clear()
            await self._changed.wait()
        self._reported = self._assigned
        return self._reported

    async def leave(self) -> None:
        """Leave the group and release all partitions."""
        coordinator = self._consumer._coordinator
        if coordinator is not None:
            coordinator._group_instance_id = None  # aiokafka sends no LeaveGroup for a static member
        await self.close()

    async def close(self) -> None:
        """Stop; a static member (`instance`) keeps its assignment until the session times out."""
        self.closed = True
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None
        await finish_within(self._consumer.stop(), self._settings.request_timeout)
        self._assigned = Assigned()
        self._changed.set()

    async def _poll(self) -> None:
        """Poll: aiokafka reports errors to polls only, and leaves the group without them."""
        while True:
            try:
                await self._consumer.getmany(timeout_ms=POLL_MS)
            except KafkaError as error:
                log.warning("consumer group error", group=self._group, error=repr(error))
                self._error = error
                self._changed.set()
                await asyncio.sleep(1)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Ignored: the new assignment follows."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """The group has assigned these partitions."""
        self._consumer.pause(*assigned)
        owned = frozenset(each.partition for each in assigned)
        standby = self._assignor.assigned.standby if owned == self._assignor.assigned.owned else frozenset()
        self._assigned = Assigned(owned, standby)
        self._changed.set()
