"""Explanation of one record that decides a preemption, or refuses it."""

from bailiff_core.records import Record, decisions

from .sentences import Section, Sentence, clock, seqs_of
from .victims import missing_sentences, preemption_sentences, refusal_sentences


def explain_record(record: Record) -> list[Section]:
    """Sections about the record. Empty for other types: the text of the record itself says all (`bailiff.render.record_text`)."""
    match record.data:
        case decisions.PreemptionDecided():
            return [Section("Which jobs are preempted, by which job, and why these?", tuple(preemption_sentences(record)))]
        case decisions.PreemptionRefused():
            sentences = [*refusal_sentences(record), *missing_sentences(record)]
            if record.data.retry_at is not None:
                retry = f"The next request is possible from {clock(record.data.retry_at)} on."
                sentences.append(Sentence(retry, seqs_of(record.seq)))
            return [Section("Why is no job preempted?", tuple(sentences))]
    return []
