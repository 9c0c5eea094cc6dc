"""Which of the API server's refusals are those of a disruption budget. The bodies are recorded ones."""

from typing import Any

import pytest

from bailiff_kubernetes import ApiError, BudgetForbids, TooManyRequests, Unreachable
from bailiff_kubernetes.errors import error_of

FORBIDDEN = {
    "kind": "Status",
    "status": "Failure",
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "reason": "TooManyRequests",
    "details": {
        "causes": [
            {"reason": "DisruptionBudget", "message": "The disruption budget all needs 1 healthy pods and has 1 currently"}
        ]
    },
    "code": 429,
}
SEVERAL = {
    "kind": "Status",
    "status": "Failure",
    "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    "code": 500,
}
BUSY = {"message": "too many requests", "reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}, "code": 429}
BROKEN = {"message": "etcdserver: request timed out", "reason": "InternalError", "code": 500}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(429, FORBIDDEN, BudgetForbids), (500, SEVERAL, BudgetForbids), (429, BUSY, TooManyRequests), (500, BROKEN, Unreachable)],
)
def test_a_budgets_refusal_differs_from_that_of_a_busy_or_broken_server(
    status: int, body: dict[str, Any], kind: type[ApiError]
) -> None:
    error = error_of(status, body)
    assert type(error) is kind
    assert error.message == body["message"]
