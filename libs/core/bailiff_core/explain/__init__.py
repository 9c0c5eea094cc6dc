"""Why a job waits, why it had to leave, for whom, when it is back, and what came of a decision: in sentences, from the log alone.

Explanations in records name a few of each group; `considered` makes the full lists again.
"""

from .choice import explain_instead, explain_next
from .device import NodeThen, NodeWatch, explain_node
from .job import explain_job
from .outcome import Outcome
from .record import explain_record
from .said import Section, Sentence, jobs_of
from .victims import condition_of, needs_text

__all__ = [
    "NodeThen", "NodeWatch", "Outcome", "Section", "Sentence", "condition_of", "explain_instead", "explain_job", "explain_next",
    "explain_node", "explain_record", "jobs_of", "needs_text",
]  # fmt: skip
