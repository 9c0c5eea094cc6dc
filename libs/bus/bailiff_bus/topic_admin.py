"""Creates the topics of the registry in Kafka."""

import asyncio
from typing import Any

from aiokafka.admin import NewPartitions, NewTopic

from .kafka import configured_replication, connected_admin, raise_for_error
from .kafka_settings import KafkaSettings
from .port import BusUnavailable
from .topics import REPLICATED_BROKERS, REPLICATION_SETTING, TOPICS


async def create_topics(bootstrap: str | KafkaSettings, pools: int, replication: int | None = None) -> list[str]:
    """Create missing topics and add partitions to those with one per pool. Returns a line per change.

    Idempotent and safe to run concurrently. Settings of existing topics are not changed: see `check_audit_settings`.
    Raises `BusUnavailable`, also while a cluster that is configured for replication lacks the brokers for it: topics
    created now would have fewer replicas.
    """
    settings = KafkaSettings(bootstrap=bootstrap) if isinstance(bootstrap, str) else bootstrap
    done = []
    async with connected_admin(settings) as admin:
        living = len((await admin.describe_cluster())["brokers"])
        brokers = max(living, await _max_replication(admin))  # one broker may be down: it must not reduce the replication
        factor = replication or (REPLICATED_BROKERS if brokers >= REPLICATED_BROKERS else 1)
        found = await _partition_counts(admin)
        missing = [topic for topic in TOPICS.values() if topic.name not in found]
        if missing and replication is None and living < REPLICATED_BROKERS <= await configured_replication(admin):
            raise BusUnavailable(
                f"Kafka at {settings.bootstrap} is configured for replication factor {REPLICATED_BROKERS} "
                f"({REPLICATION_SETTING}), but only {living} of its brokers answered: start the others, or set --replication"
            )
        if missing:
            answer = await admin.create_topics(
                [
                    NewTopic(topic.name, topic.partition_count(pools), factor, topic_configs=topic.settings_for(brokers))
                    for topic in missing
                ]
            )
            raise_for_error(answer.topic_errors, ignore="TopicAlreadyExistsError")
            done += [f"created {topic.name}" for topic in missing]
        for topic in TOPICS.values():
            has = found.get(topic.name, pools)
            if topic.partitions == "one per pool" and has < pools:
                await admin.create_partitions({topic.name: NewPartitions(pools)})
                done.append(f"{topic.name}: partitions increased from {has} to {pools}")
        await _wait_until_known(admin, pools)
    return done


async def _wait_until_known(admin: Any, pools: int) -> None:
    """Wait until the brokers' metadata has the topics that the controller created."""
    while True:
        found = await _partition_counts(admin)
        if all(found.get(topic.name, 0) >= topic.partition_count(pools) for topic in TOPICS.values()):
            return
        await asyncio.sleep(0.05)


async def _max_replication(admin: Any) -> int:
    """The highest replication factor of Bailiff's existing topics; 0 if there are none."""
    ours = [topic for topic in await admin.describe_topics(None) if topic["topic"] in TOPICS]
    return max((len(partition["replicas"]) for topic in ours for partition in topic["partitions"]), default=0)


async def _partition_counts(admin: Any) -> dict[str, int]:
    """Number of partitions with a leader, by topic."""
    return {
        topic["topic"]: sum(partition["leader"] >= 0 for partition in topic["partitions"])
        for topic in await admin.describe_topics(None)
    }
