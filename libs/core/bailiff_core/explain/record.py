"""Explanation of one record: preemptions, refusals, pending jobs, evictions and migrations."""

from bailiff_core.humanize import count_text
from bailiff_core.records import Record, decisions

from .sentences import Section, Sentence, clock, listed, seqs_of, tasks_text, without_stop
from .victims import EVICTION_CAUSES, missing_sentences, preemption_sentences, refusal_sentences


def explain_record(record: Record) -> list[Section]:
    """Sections about the record. Empty for record types without an explanation."""
    match record.data:
        case decisions.PreemptionDecided():
            return [Section("Which jobs are preempted, by which job, and why these?", tuple(preemption_sentences(record)))]
        case decisions.PreemptionRefused():
            sentences = [*refusal_sentences(record), *missing_sentences(record)]
            if record.data.retry_at is not None:
                sentences.append(
                    Sentence(f"The next request is possible from {clock(record.data.retry_at)} on.", seqs_of(record.seq))
                )
            return [Section("Why is no job preempted?", tuple(sentences))]
        case decisions.PreemptionRequested() as request:
            by = listed(list(request.actions or (request.action,)))
            preemptor = f"{request.job} ({request.class_name} {request.priority})"
            which = f" for its {tasks_text(request.tasks)}" if request.tasks else ""
            text = f"At {clock(record.time)} {preemptor} requested preemption{which} by {by}: it {without_stop(request.reason)}."
            return [Section("Which job does not fit?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.JobPending() as pending:
            text = f"{pending.job} is pending since {clock(record.time)}: {without_stop(pending.reason)}."
            return [Section("Why is it pending?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.EvictionDecided() as evicted:
            reason = f": {without_stop(evicted.reason)}" if evicted.reason else ""
            what = f"continues without its {tasks_text(evicted.tasks)}, which are evicted" if evicted.tasks else "is evicted"
            text = f"{evicted.job} {what}, because {EVICTION_CAUSES[evicted.cause]}{reason}."
            return [Section("Why is it evicted?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.MigrationDecided() as moved:
            nodes = count_text(len({share.node for share in moved.placement}), "node")
            reason = f": {without_stop(moved.reason)}" if moved.reason else ""
            what = f"Migration of {moved.job} was requested" if moved.cause == "migration" else f"{moved.job} is resized"
            text = f"{what}{reason}. Resources on {nodes} are reserved until {clock(moved.expires)}."
            return [Section("Why is it evicted?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.MigrationRefused() as refusal:
            text = (
                f"Migration of {refusal.job} was requested, but there is no other placement for it: "
                f"{without_stop(refusal.reason)}."
            )
            return [Section("Why is it not migrated?", (Sentence(text, seqs_of(record.seq)),))]
    return []
