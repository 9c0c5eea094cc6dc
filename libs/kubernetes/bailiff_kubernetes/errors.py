"""The API server's errors, as types. `message` is the server's own sentence."""

from typing import Any


class ApiError(Exception):
    """The server refused a request. status: HTTP status; reason: the server's one-word reason, such as `AlreadyExists`."""

    def __init__(self, message: str, status: int = 0, reason: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.reason, self.retry_after_s = message, status, reason, retry_after_s


class NotFound(ApiError):
    """There is no such object, or no such kind. For a pod it proves nothing about its containers."""


class AlreadyExists(ApiError):
    """An object of this name exists."""


class Conflict(ApiError):
    """The object changed, its uid is another one, or another manager owns the field."""


class Gone(ApiError):
    """The resource version is too old to be continued: list again."""


class Forbidden(ApiError):
    """No credentials, or no right to do this."""


class Invalid(ApiError):
    """The server found the object or request invalid."""


class TooManyRequests(ApiError):
    """The server asks to retry later."""


class BudgetForbids(TooManyRequests):
    """A PodDisruptionBudget forbids this eviction now, or several match the pod, which the eviction API cannot count."""


class Unreachable(ApiError):
    """No answer, or the server is failing. Whether the request had an effect is unknown."""


SEVERAL_BUDGETS = "more than one PodDisruptionBudget"
"""The API server answers 500 for such a pod, for as long as it has several budgets."""
_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def error_of(status: int, body: Any, retry_after: str | None = None) -> ApiError:
    """The error that a response of this status and body stands for."""
    content = body if isinstance(body, dict) else {}
    reason = str(content.get("reason") or "")
    message = str(content.get("message") or f"the API server answered {status}")
    causes = [cause.get("reason") for cause in (content.get("details") or {}).get("causes") or ()]
    if (status == 429 and "DisruptionBudget" in causes) or SEVERAL_BUDGETS in message:
        return BudgetForbids(message, status, reason)
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, Unreachable if status >= 500 else ApiError)
    return kind(message, status, reason, float(retry_after) if retry_after and retry_after.isdecimal() else None)
