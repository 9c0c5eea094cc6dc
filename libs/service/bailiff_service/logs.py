"""Structured logs on stderr: one JSON object per line, or readable lines for a console.

Every line carries service and instance, and the pool where one is bound. Libraries that use the standard `logging`
are included, aiokafka from level warning.
"""

import io
import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from bailiff_bus.lazy_logger import call_before_first_use

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor

Format = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]


class _Stderr(io.TextIOBase):
    """Writes to the current `sys.stderr`, which may be replaced at run time."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


_deferred: tuple[Format, Level, str, str] | None = None


def configure_logs_on_use(log_format: Format, level: Level, *, service: str, instance: str) -> None:
    """As `configure_logs`, but only once something is logged: structlog takes longer to load than a short command to run."""
    global _deferred
    _deferred = (log_format, level, service, instance)
    call_before_first_use(_configure_deferred)
    root = logging.getLogger()
    root.handlers[:] = [_Deferred()]
    root.setLevel(level.upper())


class _Deferred(logging.Handler):
    """Configures logging at the first line of the standard `logging`, and forwards that line."""

    def emit(self, record: logging.LogRecord) -> None:
        _configure_deferred()
        logging.getLogger().handle(record)


def _configure_deferred() -> None:
    global _deferred
    if _deferred is not None:
        log_format, level, service, instance = _deferred
        configure_logs(log_format, level, service=service, instance=instance)


def configure_logs(log_format: Format, level: Level, *, service: str, instance: str) -> "FilteringBoundLogger":
    """Set logging up for the whole process; returns the service's logger."""
    import structlog  # here and below: not imported by a process that logs nothing

    global _deferred
    _deferred = None
    out = cast("TextIO", _Stderr())
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _with_values(service=service, instance=instance),
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)]
        if log_format == "json"
        else [structlog.dev.ConsoleRenderer(colors=out.isatty())]
    )
    structlog.reset_defaults()
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    _redirect_standard_logging(shared, last, out, number)
    return logger()


def logger(**values: Any) -> "FilteringBoundLogger":
    """A logger that adds these values, such as `pool`, to each line."""
    import structlog

    _configure_deferred()
    bound: FilteringBoundLogger = structlog.get_logger(**values)
    return bound


def _with_values(**values: str) -> "Processor":
    """A processor that adds these values. Not context variables: lines from threads and signal handlers need them as well."""

    def add(_: Any, __: str, line: "EventDict") -> "EventDict":
        for name, value in values.items():
            line.setdefault(name, value)
        return line

    return add


def _redirect_standard_logging(shared: "list[Processor]", last: "list[Processor]", out: TextIO, level: int) -> None:
    import structlog

    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("aiokafka").setLevel(max(level, logging.WARNING))
