"""Explanation of one record: preemptions, refusals, pending jobs, evictions and migrations."""

from bailiff_core.humanize import count_text
from bailiff_core.records import Record, decisions

from .sentences import Section, Sentence, clock, listed, seqs_of, tasks_text, without_stop
from .victims import EVICTION_CAUSES, decided, needs, refused


def explain_record(record: Record) -> list[Section]:
    """Sections about the record. Empty for record types without an explanation."""
    match record.data:
        case decisions.PreemptionDecided():
            return [Section("Which jobs are preempted, by which job, and why these?", tuple(decided(record)))]
        case decisions.PreemptionRefused():
            says = [*refused(record), *needs(record)]
            if record.data.retry_at is not None:
                says.append(Sentence(f"The next request is possible from {clock(record.data.retry_at)} on.", seqs_of(record.seq)))
            return [Section("Why is no job preempted?", tuple(says))]
        case decisions.PreemptionRequested() as asked:
            by = listed(list(asked.actions or (asked.action,)))
            who = f"{asked.job} ({asked.class_name} {asked.priority})"
            which = f" for its {tasks_text(asked.tasks)}" if asked.tasks else ""
            text = f"At {clock(record.time)} {who} requested preemption{which} by {by}: it {without_stop(asked.reason)}."
            return [Section("Which job does not fit?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.JobPending() as waits:
            text = f"{waits.job} is pending since {clock(record.time)}: {without_stop(waits.reason)}."
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
        case decisions.MigrationRefused() as stays:
            text = (
                f"Migration of {stays.job} was requested, but there is no other placement for it: {without_stop(stays.reason)}."
            )
            return [Section("Why is it not migrated?", (Sentence(text, seqs_of(record.seq)),))]
    return []
