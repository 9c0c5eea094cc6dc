"""What aiokafka logs, in our log."""

import logging
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger()

SAY_AGAIN_S = 30.0
TEXTS_KNOWN = 100


class OneLine(logging.Handler):
    """Passes what aiokafka logs on to our log, without tracebacks.

    In an outage it says the same a hundred times a second: the same words pass once in `SAY_AGAIN_S`, and then with how
    often they came.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, unless it was said a moment ago."""
        text, now = record.getMessage(), self._clock()
        last, left_out = self._said.get(text, (-SAY_AGAIN_S, 0))
        if now - last < SAY_AGAIN_S:
            self._said[text] = last, left_out + 1
            return
        if len(self._said) >= TEXTS_KNOWN:
            self._said.clear()
        self._said[text] = now, 0
        error = record.exc_info[1] if record.exc_info else None
        more = {"error": repr(error)} if error else {}
        log.warning("kafka client", says=text, **more, **({"left_out": left_out} if left_out else {}))


def take_over_logging() -> None:
    theirs = logging.getLogger("aiokafka")
    if theirs.propagate:
        theirs.propagate = False
        theirs.setLevel(logging.WARNING)
        theirs.addHandler(OneLine())
