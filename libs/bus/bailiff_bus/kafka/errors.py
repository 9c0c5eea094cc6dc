"""Client settings, timeouts and error handling of calls to brokers: failures become `BusUnavailable`."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any

from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
)

from bailiff_bus.kafka_settings import KafkaSettings, secret_of
from bailiff_bus.lazy_logger import lazy_logger
from bailiff_bus.port import AccessDenied, BusUnavailable

from .tls import build_ssl_context

log = lazy_logger()

MIB = 1024 * 1024
NEW_PARTITIONS_SECONDS = 30
DENIED = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    SaslAuthenticationFailed,
    AuthenticationFailedError,
)


def client_arguments(settings: KafkaSettings) -> dict[str, Any]:
    """Arguments of every aiokafka client."""
    return {
        "bootstrap_servers": settings.bootstrap,
        "security_protocol": settings.security_protocol,
        "ssl_context": build_ssl_context(settings),
        "sasl_mechanism": settings.sasl_mechanism or "PLAIN",
        "sasl_plain_username": settings.username,
        "sasl_plain_password": secret_of(settings.password),
        "request_timeout_ms": settings.request_timeout_ms,
        "metadata_max_age_ms": NEW_PARTITIONS_SECONDS * 1000,
    }


class broker_call:  # noqa: N801 - used in `async with`; a class, because a generator costs as much as a send
    """One call to the brokers; its failure becomes `BusUnavailable`.

    with_timeout: False where aiokafka limits the call itself, since a timer costs more than a send.
    """

    __slots__ = ("_limit", "_seconds", "_settings", "_what")

    def __init__(self, settings: KafkaSettings, what: str, extra: float = 0.0, *, with_timeout: bool = True) -> None:
        self._settings, self._what, self._seconds = settings, what, settings.request_timeout + extra
        self._limit = asyncio.timeout(self._seconds) if with_timeout else None

    async def __aenter__(self) -> None:
        if self._limit is not None:
            await self._limit.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._limit is not None:
                await self._limit.__aexit__(kind, error, trace)
            if isinstance(error, TimeoutError):
                raise error
        except TimeoutError as timeout:
            reason = f"Kafka at {self._settings.bootstrap} did not {self._what} within {self._seconds:g} s"
            raise BusUnavailable(reason) from timeout
        if isinstance(error, DENIED):
            raise access_denied(self._settings, error, self._what) from error
        if isinstance(error, KafkaError | OSError) and not isinstance(error, OffsetOutOfRangeError):
            raise BusUnavailable(f"Kafka at {self._settings.bootstrap} did not {self._what}: {error}") from error


def access_denied(settings: KafkaSettings, error: BaseException, what: str) -> AccessDenied:
    """The error as `AccessDenied`: who may not do what."""
    user = f" to user {settings.username}" if settings.username else ""
    return AccessDenied(
        f"Kafka at {settings.bootstrap} denies access{user}: it did not {what} ({type(error).__name__}: {error}); "
        "`bailiff doctor` lists missing rights"
    )


async def start_or_close(client: Any, stop: Any) -> Any:
    """Start the client; close it if that fails."""
    try:
        await client.start()
    except BaseException:
        await finish_within(stop(), 1.0)
        raise
    return client


async def finish_within(call: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Returns whether the call ended within `seconds`. Its errors are only logged: closing aiokafka clients may raise."""
    task = asyncio.create_task(call)
    await asyncio.wait([task], timeout=seconds)
    if not task.done():
        task.cancel()
        return False
    if not task.cancelled() and task.exception() is not None:
        log.warning("kafka client did not close cleanly", error=repr(task.exception()))
    return True


def mark_retrieved(future: "asyncio.Future[Any]") -> None:
    """Mark a failure as retrieved: not everybody who asked still waits for it."""
    if not future.cancelled():
        future.exception()
