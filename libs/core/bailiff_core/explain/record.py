"""One record about victims or waiting, in sentences of its own."""

from bailiff_core.records import Record, decisions
from bailiff_core.words import count_text

from .said import Section, Sentence, clock, listed, seqs_of, tasks_text, unstopped
from .victims import EVICTIONS, decided, needs, refused


def explain_record(record: Record) -> list[Section]:
    """What one decision says of itself. Empty for records that decide nothing about victims."""
    match record.data:
        case decisions.PreemptionDecided():
            return [Section("Who leaves, for whom, and why these?", tuple(decided(record)))]
        case decisions.PreemptionRefused():
            says = [*refused(record), *needs(record)]
            if record.data.retry_at is not None:
                says.append(Sentence(f"It may ask again from {clock(record.data.retry_at)} on.", seqs_of(record.seq)))
            return [Section("Why does nobody leave?", tuple(says))]
        case decisions.PreemptionRequested() as asked:
            by = listed(list(asked.verbs or (asked.verb,)))
            who = f"{asked.job} ({asked.class_name} {asked.priority})"
            which = f" for its {tasks_text(asked.tasks)}" if asked.tasks else ""
            text = f"At {clock(record.time)} {who} asked for room{which} by {by}: it {unstopped(asked.reason)}."
            return [Section("Who needs room?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.JobWaits() as waits:
            text = f"{waits.job} waits since {clock(record.time)}: {unstopped(waits.reason)}."
            return [Section("Why does it wait?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.EvictionDecided() as evicted:
            reason = f": {unstopped(evicted.reason)}" if evicted.reason else ""
            which = f" without its {tasks_text(evicted.tasks)}, which stop" if evicted.tasks else ""
            verb = "goes on" if evicted.tasks else "has to stop"
            text = f"{evicted.job} {verb}{which}, because {EVICTIONS[evicted.cause]}{reason}."
            return [Section("Why does it have to leave?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.MigrationDecided() as moved:
            nodes = count_text(len({share.node for share in moved.placement}), "node")
            reason = f": {unstopped(moved.reason)}" if moved.reason else ""
            what = f"Somebody asked for {moved.job} to move" if moved.cause == "migration" else f"{moved.job} has another size"
            text = f"{what}{reason}. A place ({nodes}) is kept until {clock(moved.expires)}."
            return [Section("Why does it have to leave?", (Sentence(text, seqs_of(record.seq)),))]
        case decisions.MigrationRefused() as stays:
            text = f"Somebody asked for {stays.job} to move, and there is no other place for it: {unstopped(stays.reason)}."
            return [Section("Why does it stay?", (Sentence(text, seqs_of(record.seq)),))]
    return []
