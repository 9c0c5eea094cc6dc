"""What an input means on the present state: facts to append, or a reason why it has no effect.

Every function here is (state, message) -> facts or `Rejected`, without IO, and none of them changes the state.
"""

from .progress import facts_of_progress
from .proposals import facts_of_proposal
from .rejected import Rejected
from .reports import ReportNumbers, facts_of_report
from .requests import facts_of_request

__all__ = [
    "Rejected", "ReportNumbers", "facts_of_progress", "facts_of_proposal", "facts_of_report", "facts_of_request",
]  # fmt: skip
