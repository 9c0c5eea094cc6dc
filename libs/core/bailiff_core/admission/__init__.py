"""Admission: whether a request has an effect, and which record says so. One function per request, without IO.

The requests are declared with their records (`bailiff_core.records.job_requests` and its siblings). Admission, previews, plans
and simulations all ask `admit`.
"""

from . import budgets, calendar, jobs, keys, nodes, pool, submission  # noqa: F401 - they register their handlers
from .admit import ReceivedRequest, admit, admit_received
from .handlers import NO_DIGEST, PERMITTED, Context, Evidence
from .rejected import Rejected

__all__ = ["NO_DIGEST", "PERMITTED", "Context", "Evidence", "ReceivedRequest", "Rejected", "admit", "admit_received"]
