"""Alarms of the auditor: on `bailiff.alarms`, in metrics and in the log, each once, and of a kind few an hour.

Some are about what anybody may write, and name it: a flood there is no flood of alarms.
"""

from collections import deque

from bailiff_bus import topics
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import Bus, open_producer
from bailiff_log.credentials import Credentials
from bailiff_log.message_signatures import wrap_signed
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics

AlarmKey = tuple[str, str, str]
MOST_AN_HOUR, MOST_KNOWN = 25, 10_000  # of a pool and code; of all, until each may be raised again
HOUR = 3_600_000_000


class Alarms:
    """Raises each alarm once in the lifetime of the process, signed if there are credentials."""

    def __init__(
        self,
        bus: Bus,
        metrics: Metrics,
        clock_and_ids: ClockAndIds,
        raised: set[AlarmKey],
        credentials: Credentials | None = None,
    ) -> None:
        self._credentials = credentials
        self._bus, self._metrics, self._clock_and_ids, self._raised = bus, metrics, clock_and_ids, raised
        self._newest: dict[tuple[str, str], deque[int]] = {}

    async def alarm(self, pool: str, code: str, text: str) -> None:
        """Raise an alarm."""
        if (pool, code, text) in self._raised:
            return
        at = self._clock_and_ids.wall()
        newest = self._newest.setdefault((pool, code), deque(maxlen=MOST_AN_HOUR))
        if len(newest) == MOST_AN_HOUR and at - newest[0] < HOUR:
            return
        logger(pool=pool).error(text, code=code)
        body = Alarm(severity="critical", code=code, text=text[:4000])
        source, message_id = f"/bailiff/{pool}/auditor", f"{code}/{at}"
        headers, value = wrap_signed(self._credentials, body, source=source, id=message_id, pool=pool, time_us=at)
        async with open_producer(self._bus) as producer:
            await (await producer.send(topics.ALARMS.name, value, key=pool.encode(), headers=headers))
        self._metrics.alarms.labels(pool, code).inc()
        newest.append(at)
        if len(self._raised) >= MOST_KNOWN:
            self._raised.clear()
        self._raised.add((pool, code, text))
