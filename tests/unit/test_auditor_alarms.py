"""Alarms of the auditor: each once, and of a kind few an hour, however much there is to say about what anybody has written."""

from tests.kits.memory_bus import MemoryCluster

from bailiff_auditor.alarms import HOUR, MOST_AN_HOUR, MOST_KNOWN, AlarmKey, Alarms
from bailiff_bus import topics
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.metrics import Metrics


async def test_what_anybody_can_write_is_no_flood_of_alarms() -> None:
    cluster, now, raised = MemoryCluster(lambda: 0), [HOUR], set[AlarmKey]()
    cluster.create_topics(1)
    alarms = Alarms(cluster.client("auditor"), Metrics(), ClockAndIds(wall=lambda: now[0]), raised)

    def sent() -> int:
        return len(cluster.messages(topics.ALARMS.name, 0))

    for number in range(3 * MOST_AN_HOUR):
        await alarms.alarm("pool-a", "seal-foreign", f"offset {number}")
    assert sent() == MOST_AN_HOUR
    await alarms.alarm("pool-a", "chain-broken", "another kind")
    await alarms.alarm("pool-b", "seal-foreign", "another pool")
    assert sent() == MOST_AN_HOUR + 2
    now[0] += HOUR
    await alarms.alarm("pool-a", "seal-foreign", "an hour later")
    for _ in range(3):
        await alarms.alarm("pool-a", "chain-broken", "another kind")
    assert sent() == MOST_AN_HOUR + 3, "what was said before is not said again"
    for number in range(MOST_KNOWN):
        raised.add(("pool-a", "seal-foreign", str(number)))
    await alarms.alarm("pool-a", "chain-broken", "a third")
    assert len(raised) == 1
