"""Structured logs on stderr: one JSON object per line, or readable lines for a console.

Every line carries service and instance, and the domain where one is bound. Libraries that use the standard `logging`
come through the same way, aiokafka from warnings up.
"""

import io
import logging
import sys
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

Format = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]


class _Stderr(io.TextIOBase):
    """Whatever `sys.stderr` is when a line is written: something may have put another in its place."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def configure_logs(log_format: Format, level: Level, *, service: str, instance: str) -> FilteringBoundLogger:
    """Set logging up for the whole process; returns the service's logger."""
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


def logger(**values: Any) -> FilteringBoundLogger:
    """A logger that adds these values, such as `domain`, to each line."""
    bound: FilteringBoundLogger = structlog.get_logger(**values)
    return bound


def _with_values(**values: str) -> Processor:
    """Not bound to a context: lines from threads and signal handlers need them as well."""

    def add(_: Any, __: str, line: EventDict) -> EventDict:
        for name, value in values.items():
            line.setdefault(name, value)
        return line

    return add


def _redirect_standard_logging(shared: list[Processor], last: list[Processor], out: TextIO, level: int) -> None:
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
