"""Forwards aiokafka's log to the service's log, rate-limited."""

import logging
import time
from collections.abc import Callable

from bailiff_bus.lazy_logger import lazy_logger

log = lazy_logger()

REPEAT_AFTER_S = 30.0
MAX_REMEMBERED_TEXTS = 100


class RateLimitedHandler(logging.Handler):
    """Forwards aiokafka's log records to the service's log, without tracebacks.

    In an outage aiokafka repeats a message a hundred times a second: equal texts are logged once in `REPEAT_AFTER_S`,
    with the number of suppressed ones.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._logged: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record, unless the same text was logged within `REPEAT_AFTER_S`."""
        text, now = record.getMessage(), self._clock()
        last, suppressed = self._logged.get(text, (-REPEAT_AFTER_S, 0))
        if now - last < REPEAT_AFTER_S:
            self._logged[text] = last, suppressed + 1
            return
        if len(self._logged) >= MAX_REMEMBERED_TEXTS:
            self._logged.clear()
        self._logged[text] = now, 0
        error = record.exc_info[1] if record.exc_info else None
        more = {"error": repr(error)} if error else {}
        log.warning("kafka client", text=text, **more, **({"suppressed": suppressed} if suppressed else {}))


def redirect_client_logs() -> None:
    """Forward aiokafka's warnings to the service's log."""
    client_logger = logging.getLogger("aiokafka")
    if client_logger.propagate:
        client_logger.propagate = False
        client_logger.setLevel(logging.WARNING)
        client_logger.addHandler(RateLimitedHandler())
