"""Main function of every service: settings, logs, HTTP server, signals, reconnection to Kafka, bounded stop, exit code.

    sys.exit(main(AdmissionSettings, AdmissionService))

A service that loses Kafka is replaced, not repaired: the outcome of its last sends is unknown, so its `run` ends with
`BusUnavailable`, and a new service is created, which reads the log first. The service's task is awaited together with the
stop signal, not in a task group, which would wait without end for a task that does not stop.
"""

import asyncio
import errno
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Protocol

from structlog.typing import FilteringBoundLogger

from bailiff_bus.port import AccessDenied, BusUnavailable, TopicMissing
from bailiff_core.model.message import MESSAGE_TYPES
from bailiff_core.records import AUDIT_TYPES
from bailiff_core.records.wire import UnreadableRecord
from bailiff_log.engine_identity import engine_identity

from . import tracing
from .exit_code import ExitCode, MustStop
from .gc_tuning import raise_thresholds
from .health import HealthServer
from .logs import configure_logs
from .metrics import Metrics
from .settings import Settings, SettingsError, load_settings

MIN_BACKOFF_S = 0.5
MAX_BACKOFF_S = 15.0
STABLE_AFTER_S = 60.0  # a run of this length resets the back-off
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class Service(Protocol):
    """The interface of a service."""

    @property
    def name(self) -> str:
        """Name in logs and metrics."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then release all resources. Raises `BusUnavailable`, `MustStop`."""
        ...

    def readiness(self) -> Mapping[str, str | None]:
        """Checks by name: None if passed, else the reason."""
        ...


ServiceFactory = Callable[[Settings, Metrics], Service]
Pause = Callable[[float, asyncio.Event], Awaitable[None]]


def main(kind: type[Settings], factory: ServiceFactory[Settings], **values: Any) -> ExitCode:
    """Load the settings and run; invalid settings are printed, one sentence each."""
    try:
        settings = load_settings(kind, **values)
    except SettingsError as error:
        for sentence in error.sentences:
            sys.stderr.write(f"settings: {sentence}\n")
        return ExitCode.SETTINGS
    return run(factory, settings)


def build_models() -> None:
    """Build the validators of all records and messages, otherwise built at first use, which would delay a cycle."""
    for kind in (*AUDIT_TYPES.values(), *MESSAGE_TYPES.values()):
        kind.model_rebuild()


def run(factory: ServiceFactory[Settings], settings: Settings) -> ExitCode:
    """Run the service until SIGTERM or SIGINT; a second signal stops it at once. Returns the exit code."""
    metrics = Metrics()
    tracing.configure(settings.otlp_endpoint)
    raise_thresholds()
    build_models()

    async def run_until_signal() -> ExitCode:
        runner = ServiceRunner(factory, settings, metrics)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, runner.request_stop, number.name)
        code = await runner.serve()
        if code is ExitCode.STOP_TIMED_OUT:
            # asyncio.run would wait for the task that does not stop; no state is lost, all of it is in the log
            sys.stderr.flush()
            os._exit(code)
        return code

    return asyncio.run(run_until_signal())


class ServiceRunner(Generic[Settings]):
    """Runs one service in an event loop; `run` adds process and signals."""

    def __init__(
        self, factory: ServiceFactory[Settings], settings: Settings, metrics: Metrics, pause: Pause | None = None
    ) -> None:
        self._factory, self._settings, self._metrics = factory, settings, metrics
        self._pause = pause or _pause
        self._stop, self._stop_now = asyncio.Event(), asyncio.Event()
        self._service: Service | None = None
        self._waiting_for: str | None = None
        self._log: FilteringBoundLogger = configure_logs(
            settings.log_format, settings.log_level, service="starting", instance=settings.instance
        )

    def request_stop(self, reason: str) -> None:
        """Stop cleanly; on the second call stop at once."""
        if self._stop.is_set():
            self._log.warning("second stop request: stopping at once", signal=reason)
            self._stop_now.set()
        else:
            self._log.info("stopping", signal=reason)
            self._stop.set()

    def readiness(self) -> Mapping[str, str | None]:
        """The service's checks, the connection to Kafka, and whether it is starting or stopping."""
        checks: dict[str, str | None] = {"kafka": self._waiting_for}
        if self._stop.is_set():
            checks["running"] = "stopping"
        if self._service is None:
            checks["running"] = "starting"
        elif self._waiting_for is None:
            checks |= self._service.readiness()
        return checks

    async def serve(self) -> ExitCode:
        """Run HTTP server and service; returns the exit code."""
        self._metrics.ready.set_function(lambda: not any(self.readiness().values()))
        http = HealthServer(self._settings.http_host, self._settings.http_port, self.readiness, self._metrics.text)
        async with AsyncExitStack() as served:
            try:
                await served.enter_async_context(http)
            except OSError as error:
                where = f"{self._settings.http_host}:{self._settings.http_port}"
                self._log.error(f"the HTTP address {where} cannot be bound: {error.strerror or error}")
                return ExitCode.SETTINGS
            try:
                served.enter_context(_address_file(self._settings.http_address_file, http.address))
            except OSError as error:
                self._log.error(f"the file of the HTTP address cannot be written: {error}")
                return ExitCode.DISK if error.errno in UNWRITABLE else ExitCode.SETTINGS
            return await self._run_until_stopped(http.address)

    async def _run_until_stopped(self, address: str) -> ExitCode:
        failures = 0
        while True:
            started_at = asyncio.get_running_loop().time()
            try:
                service = self._factory(self._settings, self._metrics)
                self._announce(service, address)
                return await self._run_once(service)
            except Exception as error:  # noqa: BLE001 - the last handler: classifies and reports it
                causes = list(_leaves(error))
                if not all(isinstance(cause, BusUnavailable) for cause in causes):
                    return self._report(causes)
                failures = 1 if asyncio.get_running_loop().time() - started_at > STABLE_AFTER_S else failures + 1
                await self._wait_for_kafka(failures, causes[0])
            if self._stop.is_set():
                self._log.info("stopped")
                return ExitCode.CLEAN
            self._waiting_for = None

    def _announce(self, service: Service, address: str) -> None:
        self._log = configure_logs(
            self._settings.log_format, self._settings.log_level, service=service.name, instance=self._settings.instance
        )
        engine = str(engine_identity())
        if self._service is None:
            self._metrics.engine_info.labels(service.name, engine).set(1)
            self._log.info("started", http=address, engine=engine)
        self._service = service

    async def _run_once(self, service: Service) -> ExitCode:
        work: asyncio.Task[Any] = asyncio.create_task(service.run(self._stop))
        stop_requested: asyncio.Task[Any] = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([work, stop_requested], return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not await self._ends_in_time(work):
                self._log.error("did not stop in time", seconds=self._settings.stop_timeout_s)
                return ExitCode.STOP_TIMED_OUT
        finally:
            stop_requested.cancel()
            work.cancel()
        if not work.cancelled():
            work.result()
        if not self._stop.is_set():
            raise MustStop(ExitCode.INTERNAL, f"{service.name} ended without a stop request")
        self._log.info("stopped")
        return ExitCode.CLEAN

    async def _ends_in_time(self, work: asyncio.Task[Any]) -> bool:
        """Wait for the stop timeout; then cancel, and wait a tenth of it again. Returns whether it ended in time."""
        stop_now: asyncio.Task[Any] = asyncio.create_task(self._stop_now.wait())
        timeout = self._settings.stop_timeout_s
        await asyncio.wait([work, stop_now], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        stop_now.cancel()
        if work.done():
            return True
        work.cancel()
        await asyncio.wait([work], timeout=timeout / 10)
        return False

    async def _wait_for_kafka(self, failures: int, error: BaseException) -> None:
        if self._stop.is_set():
            return
        answered = isinstance(error, AccessDenied | TopicMissing)
        self._waiting_for = str(error) if answered else f"unreachable: {error or 'no answer'}"
        self._metrics.kafka_outages.inc()
        bootstrap = self._settings.kafka.bootstrap
        lacks = "Kafka denies access" if isinstance(error, AccessDenied) else "Kafka lacks a topic"
        what = f"{lacks}: trying again" if answered else f"Kafka is unreachable: waiting for {bootstrap}"
        self._log.warning(f"{what} (attempt {failures})", reason=str(error))
        await self._pause(min(MIN_BACKOFF_S * 2 ** min(failures - 1, 10), MAX_BACKOFF_S), self._stop)

    def _report(self, causes: list[BaseException]) -> ExitCode:
        """Log the most specific cause in one line; returns its exit code. Only internal errors have a traceback."""
        cause = min(causes, key=_rank)
        if isinstance(cause, MustStop):
            code, text = cause.code, str(cause)
        elif isinstance(cause, UnreadableRecord):
            code, text = ExitCode.UNREADABLE_RECORD, f"the log cannot be read further: {cause}"
        elif isinstance(cause, SettingsError):
            code, text = ExitCode.SETTINGS, "settings: " + "; ".join(cause.sentences)
        elif isinstance(cause, OSError) and cause.errno in UNWRITABLE:
            code, text = ExitCode.DISK, f"a file cannot be written: {cause}"
        else:
            code, text = ExitCode.INTERNAL, f"internal error: {type(cause).__name__}: {cause}"
            self._log.error(text, exit_code=int(code), traceback="".join(traceback.format_exception(cause)))
            return code
        self._log.error(text, exit_code=int(code))
        return code


def _rank(cause: BaseException) -> int:
    """Rank of a cause, most specific first; an outage of Kafka comes last."""
    order = (MustStop, UnreadableRecord, SettingsError)
    for rank, kind in enumerate(order):
        if isinstance(cause, kind):
            return rank
    return len(order) + isinstance(cause, BusUnavailable)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


async def _pause(seconds: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


@contextmanager
def _address_file(path: Path | None, address: str) -> Iterator[None]:
    """The file exists while the server runs and is written atomically."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.temporary")
    temporary.write_text(f"{address}\n", encoding="utf-8")
    temporary.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
