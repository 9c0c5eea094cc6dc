"""Facts that the writer itself puts before those of a cycle's messages: digests, clock, lost inputs, liveness."""

from bailiff_core.decision_cycle import wake_at
from bailiff_core.records.facts import (
    ClockAdvanced,
    ClockStepped,
    DecisionFailed,
    InputsAdvanced,
    InputsLost,
    TruncationReconciled,
)
from bailiff_core.records.payload import Fact

from .input_consumer import NewInputs
from .writer_context import WriterContext

INPUTS_ADVANCED_EVERY = 3_600_000_000


class OwnFacts:
    """The own facts of one writer."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._last_at = 0

    def due(self, inputs: NewInputs | None = None, *, first: bool = False, jumped: bool = False) -> list[Fact]:
        """Those of the next cycle. first: of this writer; jumped: the clocks of this machine and of the broker have."""
        context, state = self._context, self._context.state
        facts: list[Fact] = []
        digest = context.digests.due(state)
        if digest is not None:
            facts.append(digest)
        if jumped:
            facts.append(ClockStepped(jump=max(0, context.clock.step())))
        facts += [
            InputsLost(topic=gone.topic, partition=gone.partition, from_offset=gone.from_offset, to_offset=gone.to_offset)
            for gone in (inputs.lost if inputs is not None else ())
        ]
        if inputs is not None and inputs.topic_ids:
            facts.append(InputsAdvanced(topic_ids=inputs.topic_ids))
        facts += self._failed_decisions()
        facts += context.rejections.due(state, context.clock)
        if self._truncation_reconciled():
            facts.append(TruncationReconciled())
        if not first:
            facts += context.liveness.check(state)
        return self._noted(facts or self._of_time(first))

    def _failed_decisions(self) -> list[Fact]:
        jobs = self._context.state.jobs
        return [
            DecisionFailed(job=job, error=error)
            for job, error in self._context.memory.poison_inputs.jobs.items()
            if job in jobs and jobs[job].suspended_reason is None
        ]

    def _truncation_reconciled(self) -> bool:
        context, state = self._context, self._context.state
        if not state.truncation_unreconciled or context.decoder.orphans:
            return False
        return context.decoder.reconciliation.is_over(state, context.inputs.positions.all(), context.liveness.broker_now())

    def _of_time(self, first: bool) -> list[Fact]:
        """Where nothing else is due: a timer of the state, or positions to record once an hour."""
        context = self._context
        wake = wake_at(context.state)
        if first or (wake is not None and wake <= context.clock.now()):
            return [ClockAdvanced()]
        boot = context.replica.clock_and_ids.boot()
        if context.inputs.positions.changed and boot - self._last_at > INPUTS_ADVANCED_EVERY:
            return [InputsAdvanced()]
        return []

    def _noted(self, facts: list[Fact]) -> list[Fact]:
        if facts:
            self._last_at = self._context.replica.clock_and_ids.boot()
        return facts
