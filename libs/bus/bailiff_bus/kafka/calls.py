"""How a broker is asked: with which settings, for how long, and what a failure is called."""

import asyncio
from collections.abc import Coroutine
from ssl import SSLContext
from types import TracebackType
from typing import Any

import structlog
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.helpers import create_ssl_context

from bailiff_bus.port import BusUnavailable
from bailiff_bus.settings import KafkaSettings, secret_of

log = structlog.get_logger()

MIB = 1024 * 1024
NEW_PARTITIONS_SECONDS = 30


def client_arguments(settings: KafkaSettings) -> dict[str, Any]:
    """What every aiokafka client is made with."""
    return {
        "bootstrap_servers": settings.bootstrap,
        "security_protocol": settings.security_protocol,
        "ssl_context": tls_of(settings),
        "sasl_mechanism": settings.sasl_mechanism or "PLAIN",
        "sasl_plain_username": settings.username,
        "sasl_plain_password": secret_of(settings.password),
        "request_timeout_ms": settings.request_timeout_ms,
        "metadata_max_age_ms": NEW_PARTITIONS_SECONDS * 1000,
    }


def tls_of(settings: KafkaSettings) -> SSLContext | None:
    """What connections are secured with; None: they are not."""
    if settings.security_protocol not in ("SSL", "SASL_SSL"):
        return None
    context: SSLContext = create_ssl_context(cafile=settings.cafile and str(settings.cafile))
    return context


class calling:  # noqa: N801 - reads as a statement; a class, because a generator costs as much as a send
    """One exchange with the brokers, and its failure as a sentence.

    It is bounded here unless aiokafka bounds it itself: a timer costs more than a send.
    """

    __slots__ = ("_limit", "_seconds", "_settings", "_what")

    def __init__(self, settings: KafkaSettings, what: str, extra: float = 0.0, *, bounded: bool = True) -> None:
        self._settings, self._what, self._seconds = settings, what, settings.request_timeout + extra
        self._limit = asyncio.timeout(self._seconds) if bounded else None

    async def __aenter__(self) -> None:
        if self._limit is not None:
            await self._limit.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._limit is not None:
                await self._limit.__aexit__(kind, error, trace)
            if isinstance(error, TimeoutError):
                raise error
        except TimeoutError as late:
            told = f"Kafka at {self._settings.bootstrap} did not {self._what} within {self._seconds:g} s"
            raise BusUnavailable(told) from late
        if isinstance(error, KafkaError | OSError) and not isinstance(error, OffsetOutOfRangeError):
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap} did not {self._what}: {error}") from error


async def started(client: Any, stop: Any) -> Any:
    """The client, connected; or let go of again."""
    try:
        await client.start()
    except BaseException:
        await bounded(stop(), 1.0)
        raise
    return client


async def bounded(call: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Whether the call ended in time. Its errors and cancellations stay its own: aiokafka's closing has both."""
    task = asyncio.create_task(call)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        task.cancel()
        return False
    if not task.cancelled() and task.exception() is not None:
        log.warning("kafka client did not close cleanly", error=repr(task.exception()))
    return True
