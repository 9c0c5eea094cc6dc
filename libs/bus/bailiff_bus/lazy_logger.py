"""A structlog logger that imports structlog at the first line logged, so that short commands start fast."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_before_first_use: Callable[[], None] | None = None


def call_before_first_use(configure: Callable[[], None]) -> None:
    """Register the function that configures logging; it is called before the first line is logged."""
    global _before_first_use
    _before_first_use = configure


def lazy_logger(**values: Any) -> "FilteringBoundLogger":
    """A logger that adds these values, such as `pool`, to each line."""
    return cast("FilteringBoundLogger", _LazyLogger(values))


class _LazyLogger:
    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        import structlog

        global _before_first_use
        if _before_first_use is not None:
            configure, _before_first_use = _before_first_use, None
            configure()
        return getattr(structlog.get_logger(**self._values), name)
