"""Builds traces of preemptions from records: one trace per preemption, from the request to the last victim's restart.

The trace belongs to the preemptor's job; times are log time. Open spans are stored with the aggregates, so that a job that
restarts days later, or after a crash of the roll-up, ends its span. Ids are deterministic: exporting twice gives the same ids.
"""

from dataclasses import dataclass, field
from typing import Any

from bailiff_core.model.state import PoolState
from bailiff_core.records import Record, decisions, facts
from bailiff_log.reader import Entry
from bailiff_service.tracing import Span, span_of, trace_of

ADMISSION, SELECTION, EXECUTOR, AGENT = (
    f"bailiff-{name}" for name in ("admission", "victim-selection", "eviction-executor", "node-agent")
)
Open = dict[str, dict[str, Any]]  # by job; JSON
MOST_OPEN = 1_000  # of each kind; for more the oldest are not exported: all of them are stored in one message


@dataclass(slots=True)
class RequestSpan:
    """A span whose parent and start come from the request message. cause: its `topic/partition/offset`."""

    span: Span
    cause: str


@dataclass(slots=True)
class Traces:
    """state: open spans, as stored. spans: ended, to be exported."""

    state: dict[str, Open] = field(default_factory=dict)
    spans: list[Span | RequestSpan] = field(default_factory=list)

    def observe(self, state: PoolState, entry: Entry) -> None:
        """Open or end the spans that this record concerns. state: after the record."""
        self._observe(state, entry)
        for opened in self.state.values():
            while len(opened) > MOST_OPEN:
                del opened[next(iter(opened))]

    def _observe(self, state: PoolState, entry: Entry) -> None:
        record, data, now = entry.record, entry.record.data, entry.record.time
        match data:
            case facts.JobSubmitted():
                self._open("submitted")[data.demand.job] = {"cause": record.cause, "at": now}
            case decisions.PreemptionRequested():
                self._open("requests")[data.job] = {"at": now}
            case facts.ProposalReceived():
                for proposal in data.proposals:
                    self._open("requests").get(proposal.job, {})["answered"] = now
            case decisions.PreemptionDecided():
                self._on_preemption(record, data)
            case facts.EvictionStarted():
                self._open("evicting").get(data.job, {})["started"] = now
            case facts.EvictionStageReached():
                self._event(data.job, data.task, data.stage, now)
            case facts.TaskExited():
                self._event(data.job, data.task, "exited", now)
            case facts.TaskReleased():
                self._on_released(data, now)
            case decisions.JobRequeued() | decisions.JobShrunk() | decisions.JobEnded() | decisions.EvictionCancelled():
                self._end_eviction(data, now)
            case decisions.JobStarting():
                self._open("starting").get(data.job, {})["at"] = now
            case decisions.ReservationDropped():
                self._open("starting").pop(data.job, None)
            case facts.TaskStarted():
                if state.jobs[data.job].last_start is not None:
                    self._on_running(data.job, now)
            case _:
                pass
        if isinstance(data, decisions.JobEnded):
            self._on_job_ended(data, now)

    def _open(self, name: str) -> Open:
        return self.state.setdefault(name, {})

    def _on_preemption(self, record: Record, data: decisions.PreemptionDecided) -> None:
        pool, seq, job, now = record.pool, record.seq, data.preemptor.job, record.time
        trace = trace_of(pool, job)
        admit, place = span_of(trace, "admit"), span_of(trace, "place", data.request)
        submitted, request = self._open("submitted").get(job), self._open("requests").pop(job, {"at": now})
        attributes = {"bailiff.pool": pool, "bailiff.job": job}
        if submitted is not None and "exported" not in submitted:
            submitted["exported"] = True
            self.spans.append(
                RequestSpan(
                    Span(ADMISSION, f"admit {job}", trace, admit, "", submitted["at"], submitted["at"], attributes),
                    submitted["cause"],
                )
            )
        parent = admit if submitted is not None else ""
        seqs = {"bailiff.request_seq": data.request, "bailiff.decision_seq": seq, "bailiff.action": data.action}
        self.spans += [
            Span(ADMISSION, f"place {job}", trace, place, parent, request["at"], now, {**attributes, **seqs}),
            Span(
                SELECTION,
                "select victims",
                trace,
                span_of(trace, "select", data.request),
                place,
                request["at"],
                request.get("answered", now),
                {**attributes, "bailiff.victims": len(data.victims)},
            ),
        ]
        self._open("starting")[job] = {"trace": trace, "parent": place, "at": now, "attempt": data.attempt}
        for victim in data.new_victims:
            if not victim.reserved:
                self._open("evicting")[victim.job] = {
                    "trace": trace,
                    "parent": place,
                    "span": span_of(trace, "evict", victim.job, seq),
                    "at": now,
                    "pool": pool,
                    "for": job,
                    "attempt": victim.attempt,
                    "tasks": {},
                }

    def _event(self, job: str, task: int, name: str, now: int) -> None:
        eviction = self._open("evicting").get(job)
        if eviction is not None:
            eviction["tasks"].setdefault(str(task), []).append([name, now])

    def _on_released(self, data: facts.TaskReleased, now: int) -> None:
        eviction = self._open("evicting").get(data.job)
        if eviction is not None:
            events = tuple((name, at) for name, at in eviction["tasks"].pop(str(data.task), []))
            trace: str = eviction["trace"]
            start: int = eviction["started"] if "started" in eviction else eviction["at"]
            self.spans.append(
                Span(
                    AGENT,
                    f"stop {data.job}/{data.task}",
                    trace,
                    span_of(trace, "stop", eviction["span"], data.task),
                    eviction["span"],
                    start,
                    now,
                    {"bailiff.node": data.node, "bailiff.job": data.job, "bailiff.task": data.task},
                    events,
                )
            )

    def _end_eviction(self, data: Any, now: int) -> None:
        eviction = self._open("evicting").pop(data.job, None)
        if eviction is None:
            return
        outcome = getattr(data, "outcome", "eviction-cancelled")
        attributes = {
            "bailiff.job": data.job,
            "bailiff.for_job": eviction["for"],
            "bailiff.outcome": outcome,
            "bailiff.work_and_restart_gpu_ms": getattr(data, "lost_gpu_ms", 0),
        }
        trace, span = eviction["trace"], eviction["span"]
        self.spans.append(Span(EXECUTOR, f"evict {data.job}", trace, span, eviction["parent"], eviction["at"], now, attributes))
        if isinstance(data, decisions.JobRequeued):
            self._open("requeued")[data.job] = {"trace": trace, "parent": span, "at": now, "attempt": data.attempt}

    def _on_running(self, job: str, now: int) -> None:
        for name, title in (("starting", "start"), ("requeued", "resume")):
            self._end(name, title, job, now, "running")

    def _on_job_ended(self, data: decisions.JobEnded, now: int) -> None:
        self._end("requeued", "resume", data.job, now, data.outcome)
        for name in ("submitted", "requests", "starting"):
            self._open(name).pop(data.job, None)

    def _end(self, name: str, title: str, job: str, now: int, outcome: str) -> None:
        open_span = self._open(name).pop(job, None)
        if open_span is not None:
            trace, parent = open_span["trace"], open_span["parent"]
            self.spans.append(
                Span(
                    ADMISSION,
                    f"{title} {job}",
                    trace,
                    span_of(trace, title, job, open_span["attempt"]),
                    parent,
                    open_span["at"],
                    now,
                    {"bailiff.job": job, "bailiff.outcome": outcome},
                )
            )
