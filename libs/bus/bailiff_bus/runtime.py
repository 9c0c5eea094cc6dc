"""The main of every service: settings, logs, HTTP, signals, waiting for Kafka, a bounded stop, one exit code.

    sys.exit(main(AdmissionSettings, AdmissionService))

A service that loses Kafka is not repaired in place: what its last sends came to is unknown, so its `run` ends with
`BusUnavailable`, and a new one is made, which reads the log first. The service's task is awaited beside the stop
signal and not inside a task group, because a group waits for ever for a task that does not end.
"""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Protocol

from structlog.typing import FilteringBoundLogger

from bailiff_bus import tracing
from bailiff_bus.engine_identity import engine_identity
from bailiff_bus.exit_code import ExplainedCode
from bailiff_bus.garbage import look_seldom
from bailiff_bus.health import HealthServer
from bailiff_bus.logs import configure_logs
from bailiff_bus.metrics import Metrics
from bailiff_bus.port import BusUnavailable
from bailiff_bus.settings import Settings, SettingsError, load_settings
from bailiff_core.records.wire import UnreadableRecord

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 15.0
CALM_AFTER = 60.0  # a run of so many seconds was no failed try


class ExitCode(ExplainedCode):
    """What the end of a service says to whoever started it."""

    CLEAN = 0, "Asked to stop, and stopped."
    SETTINGS = 2, "The settings, or a declaration that they name, do not fit. Starting again changes nothing."
    KAFKA_SETTINGS = 3, "A topic or broker setting would let the log be lost, cut or reordered (log protocol §1)."
    CLOCK = 4, "This machine's clock and the broker's are too far apart (log protocol §7)."
    UNREADABLE_RECORD = 5, "The log holds a record that this release cannot read and must not skip."
    STOP_TIMED_OUT = 6, "Asked to stop, and had not done so when the time for that was over."
    STATE_DIVERGED = 7, "This fold of the log and its own state digest differ: a fault in the program, or in the log."
    INTERNAL = 70, "An error in the program. Starting again is right; a report is welcome."


class MustStop(Exception):
    """A service cannot go on, knows why, and says with which exit code. The text is one line for an operator."""

    def __init__(self, code: ExitCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Service(Protocol):
    """One service as the runtime sees it."""

    @property
    def name(self) -> str:
        """How it is called in logs."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then let go of everything and return. Raises `BusUnavailable`, `MustStop`."""
        ...

    def readiness(self) -> Mapping[str, str | None]:
        """Each check by name: None when it is passed, else why not."""
        ...


ServiceFactory = Callable[[Settings, Metrics], Service]
Pause = Callable[[float, asyncio.Event], Awaitable[None]]


def main(kind: type[Settings], factory: ServiceFactory[Settings], **values: Any) -> ExitCode:
    """Load the settings and run; a fault in them is printed, one sentence each."""
    try:
        settings = load_settings(kind, **values)
    except SettingsError as error:
        for sentence in error.sentences:
            sys.stderr.write(f"settings: {sentence}\n")
        return ExitCode.SETTINGS
    return run(factory, settings)


def run(factory: ServiceFactory[Settings], settings: Settings) -> ExitCode:
    """Run the service until SIGTERM or SIGINT; a second signal ends the waiting. Returns the exit code."""
    metrics = Metrics()
    tracing.configure(settings.otlp_endpoint)
    look_seldom()

    async def everything() -> ExitCode:
        host = Host(factory, settings, metrics)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, host.ask_to_stop, number.name)
        code = await host.serve()
        if code is ExitCode.STOP_TIMED_OUT:
            # asyncio.run would wait for what does not end; nothing that stands only in memory matters (§3)
            sys.stderr.flush()
            os._exit(code)
        return code

    return asyncio.run(everything())


class Host(Generic[Settings]):
    """Runs one service in an event loop. `run` puts signals and a process around it."""

    def __init__(
        self, factory: ServiceFactory[Settings], settings: Settings, metrics: Metrics, pause: Pause | None = None
    ) -> None:
        self._factory, self._settings, self._metrics = factory, settings, metrics
        self._pause = pause or _pause
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self._service: Service | None = None
        self._waiting_for: str | None = None
        self._log: FilteringBoundLogger = configure_logs(
            settings.log_format, settings.log_level, service="starting", instance=settings.instance
        )

    def ask_to_stop(self, why: str) -> None:
        """Stop cleanly; asked once more, stop at once."""
        if self._stop.is_set():
            self._log.warning("asked again: not waiting any longer", by=why)
            self._hurry.set()
        else:
            self._log.info("stopping", by=why)
            self._stop.set()

    def readiness(self) -> Mapping[str, str | None]:
        """The service's own checks, and what the runtime knows: Kafka, and whether it is on its way out."""
        checks: dict[str, str | None] = {"kafka": self._waiting_for}
        if self._stop.is_set():
            checks["running"] = "stopping"
        if self._service is None:
            checks["running"] = "starting"
        elif self._waiting_for is None:
            checks |= self._service.readiness()
        return checks

    async def serve(self) -> ExitCode:
        """Everything from the HTTP server to the end of the service."""
        self._metrics.ready.set_function(lambda: not any(self.readiness().values()))
        http = HealthServer(self._settings.http_host, self._settings.http_port, self.readiness, self._metrics.text)
        try:
            async with http:
                with _address_file(self._settings.http_address_file, http.address):
                    return await self._run_until_stopped(http.address)
        except OSError as error:
            where = f"{self._settings.http_host}:{self._settings.http_port}"
            self._log.error(f"the HTTP address {where} cannot be used: {error.strerror or error}")
            return ExitCode.SETTINGS

    async def _run_until_stopped(self, address: str) -> ExitCode:
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                service = self._factory(self._settings, self._metrics)
                self._introduce(service, address)
                return await self._run_once(service)
            except Exception as error:  # noqa: BLE001 - the last place where it can be told apart and reported
                causes = list(_leaves(error))
                if not all(isinstance(cause, BusUnavailable) for cause in causes):
                    return self._report(causes)
                failures = 1 if asyncio.get_running_loop().time() - began > CALM_AFTER else failures + 1
                await self._wait_for_kafka(failures, causes[0])
            if self._stop.is_set():
                self._log.info("stopped")
                return ExitCode.CLEAN
            self._waiting_for = None

    def _introduce(self, service: Service, address: str) -> None:
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
        asked: asyncio.Task[Any] = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([work, asked], return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not await self._ends_in_time(work):
                self._log.error("did not stop in time", seconds=self._settings.stop_timeout_s)
                return ExitCode.STOP_TIMED_OUT
        finally:
            asked.cancel()
            work.cancel()
        if not work.cancelled():
            work.result()
        if not self._stop.is_set():
            raise MustStop(ExitCode.INTERNAL, f"{service.name} ended although nobody asked it to")
        self._log.info("stopped")
        return ExitCode.CLEAN

    async def _ends_in_time(self, work: asyncio.Task[Any]) -> bool:
        """Wait for as long as a stop may take; then cancel, and give what is cancelled a tenth of that to tidy up."""
        hurry: asyncio.Task[Any] = asyncio.create_task(self._hurry.wait())
        bound = self._settings.stop_timeout_s
        await asyncio.wait([work, hurry], timeout=bound, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        if work.done():
            return True
        work.cancel()
        await asyncio.wait([work], timeout=bound / 10)
        return False

    async def _wait_for_kafka(self, failures: int, error: BaseException) -> None:
        if self._stop.is_set():
            return
        self._waiting_for = f"not there: {error or 'no answer'}"
        self._metrics.kafka_outages.inc()
        self._log.warning(f"Kafka is not there: waiting for {self._settings.kafka.bootstrap} (try {failures})", reason=str(error))
        await self._pause(min(FIRST_PAUSE * 2 ** min(failures - 1, 10), LONGEST_PAUSE), self._stop)

    def _report(self, causes: list[BaseException]) -> ExitCode:
        """One clear line about the worst of them, and the exit code for it. Only an error of ours has a traceback."""
        cause = min(causes, key=_rank)
        if isinstance(cause, MustStop):
            code, text = cause.code, str(cause)
        elif isinstance(cause, UnreadableRecord):
            code, text = ExitCode.UNREADABLE_RECORD, f"the log cannot be read on: {cause}"
        elif isinstance(cause, SettingsError):
            code, text = ExitCode.SETTINGS, "settings: " + "; ".join(cause.sentences)
        else:
            code, text = ExitCode.INTERNAL, f"internal error: {type(cause).__name__}: {cause}"
            self._log.error(text, exit_code=int(code), traceback="".join(traceback.format_exception(cause)))
            return code
        self._log.error(text, exit_code=int(code))
        return code


def _rank(cause: BaseException) -> int:
    """What explains an end best comes first; an outage of Kafka explains the least."""
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
    """The file holds the whole address or does not exist, so that whoever waits for it may read it at once."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(f"{address}\n", encoding="utf-8")
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
