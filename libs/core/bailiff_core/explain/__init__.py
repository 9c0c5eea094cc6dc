"""Explanations of decisions, derived from the log alone: why a job is pending or was preempted, and when it resumes.

Layers, bottom to top: sentences; counterfactual and candidate_report (the search repeated under other conditions, and the full
lists of candidates, of which records keep only examples); pending_records, victims, unblockers, eviction_stages, proposals (what
searching again gives); evictions, runner_up; job, record, device.
"""

from .device import NodeAtTime, NodeHistory, explain_node
from .job import explain_job
from .pending_records import PENDING_RECORDS, missing_text, pending_reason_in
from .proposals import explain_searched_again
from .record import explain_record
from .runner_up import explain_counterfactual, explain_next_victims
from .sentences import Section, Sentence
from .victims import condition_of

__all__ = [
    "PENDING_RECORDS",
    "NodeAtTime",
    "NodeHistory",
    "Section",
    "Sentence",
    "condition_of",
    "explain_counterfactual",
    "explain_job",
    "explain_next_victims",
    "explain_node",
    "explain_record",
    "explain_searched_again",
    "missing_text",
    "pending_reason_in",
]
