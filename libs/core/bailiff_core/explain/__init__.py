"""Why a job waits, why it had to leave, for whom, when it is back, and what came of a decision: in sentences, from the log alone.

Explanations in records name a few of each group; `considered` makes the full lists again.
"""

from .job import explain_job
from .outcome import Outcome
from .record import explain_record
from .said import Section, Sentence, jobs_of
from .victims import condition_of, needs_text

__all__ = ["Outcome", "Section", "Sentence", "condition_of", "explain_job", "explain_record", "jobs_of", "needs_text"]
