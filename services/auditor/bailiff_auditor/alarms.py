"""Alarms of the auditor: on `bailiff.alarms`, in the metrics and in its log, once for each thing that is wrong."""

from bailiff_bus import topics
from bailiff_bus.ambient import Ambient
from bailiff_bus.envelope import wrap
from bailiff_bus.logs import logger
from bailiff_bus.messages import Alarm
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import Bus

Told = tuple[str, str, str]


class Alarms:
    """Raises alarms; says nothing twice in the life of the process."""

    def __init__(self, bus: Bus, metrics: Metrics, ambient: Ambient, told: set[Told]) -> None:
        self._bus, self._metrics, self._ambient, self._told = bus, metrics, ambient, told

    async def alarm(self, domain: str, code: str, text: str) -> None:
        """Tell operators."""
        if (domain, code, text) in self._told:
            return
        logger(domain=domain).error(text, code=code)
        at = self._ambient.wall()
        body = Alarm(severity="critical", code=code, text=text[:4000])
        headers, value = wrap(body, source=f"/bailiff/{domain}/auditor", id=f"{code}/{at}", domain=domain, time_us=at)
        producer = await self._bus.producer()
        try:
            await (await producer.send(topics.ALARMS.name, value, key=domain.encode(), headers=headers))
        finally:
            await producer.close(1.0)
        self._metrics.alarms.labels(domain, code).inc()
        self._told.add((domain, code, text))
