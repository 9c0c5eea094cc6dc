"""Alarms of the auditor: on `bailiff.alarms`, in metrics and in the log, each once."""

from bailiff_bus import topics
from bailiff_bus.messages.dead_letters import Alarm
from bailiff_bus.port import Bus, open_producer
from bailiff_log.credentials import Credentials
from bailiff_log.message_signatures import wrap_signed
from bailiff_service.clock_and_ids import ClockAndIds
from bailiff_service.logs import logger
from bailiff_service.metrics import Metrics

AlarmKey = tuple[str, str, str]


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

    async def alarm(self, pool: str, code: str, text: str) -> None:
        """Raise an alarm."""
        if (pool, code, text) in self._raised:
            return
        logger(pool=pool).error(text, code=code)
        at = self._clock_and_ids.wall()
        body = Alarm(severity="critical", code=code, text=text[:4000])
        source, message_id = f"/bailiff/{pool}/auditor", f"{code}/{at}"
        headers, value = wrap_signed(self._credentials, body, source=source, id=message_id, pool=pool, time_us=at)
        async with open_producer(self._bus) as producer:
            await (await producer.send(topics.ALARMS.name, value, key=pool.encode(), headers=headers))
        self._metrics.alarms.labels(pool, code).inc()
        self._raised.add((pool, code, text))
