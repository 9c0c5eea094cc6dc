"""Lines about the log itself: its pool, its writers, their clocks and inputs."""

from bailiff_core.model.pool import Pool
from bailiff_core.records import facts
from bailiff_core.words import count_text, duration_text

from .line import Said
from .tellers import Tellers
from .words import joined

tells = Tellers()


@tells(facts.DomainCreated)
def _domain_created(fact: facts.DomainCreated, _pool: Pool) -> Said:
    return Said("pool created", fact.domain, f"partition {fact.partition}, format {fact.format}", "good")


@tells(facts.PolicyApplied)
def _policy_applied(fact: facts.PolicyApplied, _pool: Pool) -> Said:
    classes = sorted(fact.policy.priority_classes, key=lambda entry: -entry.value)
    shown = " > ".join(f"{entry.name} {entry.value}" for entry in classes[:6]) + (" …" if len(classes) > 6 else "")
    enforced = "what it would not have admitted leaves" if fact.enforce else ""
    return Said("policy in force", shown, joined(f"verbs {', '.join(fact.policy.preemption.verbs)}", enforced))


@tells(facts.WriterStarted)
def _writer_started(fact: facts.WriterStarted, _pool: Pool) -> Said:
    engine = f"release {fact.release}, logic {fact.logic}, engine {fact.digest[:12]}"
    return Said("writer started", fact.writer[:8], engine, "quiet")


@tells(facts.ClockAdvanced)
def _clock_advanced(_fact: facts.ClockAdvanced, _pool: Pool) -> Said:
    return Said("clock", "", "a moment came that a rule was waiting for", "quiet")


@tells(facts.ClockStepped)
def _clock_stepped(fact: facts.ClockStepped, _pool: Pool) -> Said:
    way = "forward" if fact.by >= 0 else "back"
    return Said("clock stepped", "", f"the writer's clock jumped {way} by {duration_text(abs(fact.by))}; not counted", "warn")


@tells(facts.InputsAdvanced)
def _inputs_advanced(_fact: facts.InputsAdvanced, _pool: Pool) -> Said:
    return Said("inputs read", "", "nothing in them for this pool", "quiet")


@tells(facts.InputsLost)
def _inputs_lost(fact: facts.InputsLost, _pool: Pool) -> Said:
    where = f"{fact.topic}/{fact.partition}"
    gone = count_text(fact.to_offset - fact.from_offset, "message")
    more = f"{gone} were gone before they were read (offsets {fact.from_offset} to {fact.to_offset - 1})"
    return Said("inputs lost", where, more, "bad")


@tells(facts.InputRejected)
def _input_rejected(fact: facts.InputRejected, _pool: Pool) -> Said:
    times = f"{fact.count} inputs, the newest: " if fact.count > 1 else ""
    where = f"{fact.topic}/{fact.partition}/{fact.offset}"
    return Said("rejected", fact.job or where, f"{times}{fact.code}: {fact.reason}", "bad")


@tells(facts.StateDigest)
def _state_digest(fact: facts.StateDigest, _pool: Pool) -> Said:
    return Said("state digest", fact.digest[:12], f"schema {fact.schema_version}", "quiet")


@tells(facts.DecisionFailed)
def _decision_failed(fact: facts.DecisionFailed, _pool: Pool) -> Said:
    return Said("decision failed", fact.job, f"held until it is cancelled: {fact.error}", "bad")


@tells(facts.LogTruncated)
def _log_truncated(fact: facts.LogTruncated, _pool: Pool) -> Said:
    more = joined(f"agents had obeyed up to epoch {fact.epoch} seq {fact.seq}; an operator goes on", fact.reason)
    return Said("truncation accepted", "", more, "bad")


@tells(facts.LogSettled)
def _log_settled(_fact: facts.LogSettled, _pool: Pool) -> Said:
    return Said("log settled", "", "every agent has said what it runs; tasks are started again", "good")
