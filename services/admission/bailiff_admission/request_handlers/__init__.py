"""Handlers of reports, proposals and progress: facts to append on the present state, or the reason of a rejection.

Every function is (state, message) -> facts or `Rejected`, without IO and without changing the state.
"""

from .progress import facts_of_progress
from .proposals import facts_of_proposal
from .reports import ReportNumbers, facts_of_report

__all__ = ["ReportNumbers", "facts_of_progress", "facts_of_proposal", "facts_of_report"]
