"""Text of records about the log itself: pool, policy, writers, clock, inputs."""

from bailiff_core.humanize import count_text, duration_text
from bailiff_core.model.state import PoolState
from bailiff_core.records import facts

from .line import Statement
from .phrases import joined, with_reason
from .registry import Entries

describes = Entries()


@describes(facts.PoolCreated)
def _pool_created(fact: facts.PoolCreated, _state: PoolState) -> Statement:
    return Statement("pool created", fact.pool, f"partition {fact.partition}, format {fact.format}", "good")


@describes(facts.PolicyApplied, event="PolicyApplied")
def _policy_applied(fact: facts.PolicyApplied, _state: PoolState) -> Statement:
    classes = sorted(fact.policy.priority_classes, key=lambda entry: -entry.value)
    shown = " > ".join(f"{entry.name} {entry.value}" for entry in classes[:6]) + (" …" if len(classes) > 6 else "")
    enforced = "jobs that it does not admit are evicted" if fact.enforce else ""
    why = f"reason: {fact.reason}" if fact.reason else ""
    return Statement("policy in force", shown, joined(f"actions {', '.join(fact.policy.preemption.actions)}", enforced, why))


@describes(facts.WriterStarted)
def _writer_started(fact: facts.WriterStarted, _state: PoolState) -> Statement:
    engine = f"release {fact.release}, logic {fact.logic}, engine {fact.digest[:12]}"
    return Statement("writer started", fact.writer[:8], engine, "quiet")


@describes(facts.ClockAdvanced)
def _clock_advanced(_fact: facts.ClockAdvanced, _state: PoolState) -> Statement:
    return Statement("clock", "", "a timer expired", "quiet")


@describes(facts.ClockStepped)
def _clock_stepped(fact: facts.ClockStepped, _state: PoolState) -> Statement:
    way = "forward" if fact.jump >= 0 else "back"
    return Statement(
        "clock stepped", "", f"the writer's clock jumped {way} by {duration_text(abs(fact.jump))}; not counted", "warn"
    )


@describes(facts.KeyRevoked)
def _key_revoked(fact: facts.KeyRevoked, _state: PoolState) -> Statement:
    return Statement("key revoked", fact.key, fact.reason or "no reason given", "warn")


@describes(facts.RootKeyChanged)
def _root_key_changed(fact: facts.RootKeyChanged, _state: PoolState) -> Statement:
    return Statement("root key changed", fact.change.key, "signed with the key before it", "warn")


@describes(facts.InputsAdvanced)
def _inputs_advanced(fact: facts.InputsAdvanced, _state: PoolState) -> Statement:
    more = f"from now on from {count_text(len(fact.topic_ids), 'other topic')}" if fact.topic_ids else "no input for this pool"
    return Statement("inputs read", "", more, "quiet")


@describes(facts.InputsLost)
def _inputs_lost(fact: facts.InputsLost, _state: PoolState) -> Statement:
    where = f"{fact.topic}/{fact.partition}"
    if fact.to_offset < fact.from_offset:
        more = f"the topic was cut or made anew: it is read from offset {fact.to_offset}, no longer from {fact.from_offset}"
    else:
        gone = count_text(fact.to_offset - fact.from_offset, "message")
        more = f"{gone} expired before they were read (offsets {fact.from_offset} to {fact.to_offset - 1})"
    return Statement("inputs lost", where, more, "bad")


@describes(facts.InputRejected, event=lambda _, fact, __: "Rejected" if fact.job is not None else "")
def _input_rejected(fact: facts.InputRejected, _state: PoolState) -> Statement:
    times = f"{fact.count} inputs, the newest: " if fact.count > 1 else ""
    where = f"{fact.topic}/{fact.partition}/{fact.offset}"
    return Statement("rejected", fact.job or where, f"{times}{fact.code}: {fact.reason}", "bad")


@describes(facts.StateDigest)
def _state_digest(fact: facts.StateDigest, _state: PoolState) -> Statement:
    return Statement("state digest", fact.digest[:12], f"schema {fact.schema_version}", "quiet")


@describes(facts.DecisionFailed, event="DecisionFailed")
def _decision_failed(fact: facts.DecisionFailed, _state: PoolState) -> Statement:
    return Statement("decision failed", fact.job, f"suspended until it is cancelled: {fact.error}", "bad")


@describes(facts.LogTruncated)
def _log_truncated(fact: facts.LogTruncated, _state: PoolState) -> Statement:
    text = f"agents had executed commands up to epoch {fact.epoch} seq {fact.seq}; accepted by an operator"
    return Statement("truncation accepted", "", with_reason(text, fact.reason), "bad")


@describes(facts.TruncationReconciled)
def _truncation_reconciled(_fact: facts.TruncationReconciled, _state: PoolState) -> Statement:
    return Statement("log reconciled", "", "every agent has reported its tasks; scheduling continues", "good")
