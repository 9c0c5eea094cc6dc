"""Preemptions as traces, from the records: one preemption is one trace, from the request to the last victim's resumption.

It is the trace of the job that asked; its times are those of the log. What a span still waits for is kept with the figures,
so that a job which comes back after days, or after any crash, ends its span. Ids follow from what spans are about: told
twice, they are the same.
"""

from dataclasses import dataclass, field
from typing import Any

from bailiff_bus.log import Entry
from bailiff_bus.tracing import Span, span_of, trace_of
from bailiff_core.model.pool import Pool
from bailiff_core.records import Record, decisions, facts

ADMISSION, SELECTION, EXECUTOR, AGENT = (
    f"bailiff-{name}" for name in ("admission", "victim-selection", "eviction-executor", "node-agent")
)
Open = dict[str, dict[str, Any]]  # by job; JSON


@dataclass(slots=True)
class Asked:
    """A span whose parent, and whose beginning, the message says that asked: `topic/partition/offset`."""

    span: Span
    cause: str


@dataclass(slots=True)
class Traces:
    """state: what is open, as stored. spans: that have ended, to be sent."""

    state: dict[str, Open] = field(default_factory=dict)
    spans: list[Span | Asked] = field(default_factory=list)

    def observe(self, pool: Pool, entry: Entry) -> None:
        """Look at this record, which the pool has just folded."""
        record, data, now = entry.record, entry.record.data, entry.record.time
        match data:
            case facts.JobSubmitted():
                self._open("asked")[data.demand.job] = {"cause": record.cause, "at": now}
            case decisions.PreemptionRequested():
                self._open("requests")[data.job] = {"at": now}
            case facts.ProposalReceived():
                for answer in data.answers:
                    self._open("requests").get(answer.job, {})["answered"] = now
            case decisions.PreemptionDecided():
                self._decided(record, data)
            case facts.EvictionBegun():
                self._open("leaving").get(data.job, {})["begun"] = now
            case facts.EvictionStaged():
                self._event(data.job, data.task, data.stage, now)
            case facts.TaskExited():
                self._event(data.job, data.task, "exited", now)
            case facts.TaskReleased():
                self._released(data, now)
            case decisions.JobRequeued() | decisions.JobShrunk() | decisions.JobEnded() | decisions.EvictionWithdrawn():
                self._left(data, now)
            case decisions.JobStartOrdered():
                self._open("starting").get(data.job, {})["at"] = now
            case decisions.ReservationDropped():
                self._open("starting").pop(data.job, None)
            case facts.TaskStarted():
                if pool.jobs[data.job].last_start is not None:
                    self._runs(data.job, now)
            case _:
                pass
        if isinstance(data, decisions.JobEnded):
            self._gone(data, now)

    def _open(self, name: str) -> Open:
        return self.state.setdefault(name, {})

    def _decided(self, record: Record, data: decisions.PreemptionDecided) -> None:
        domain, seq, job, now = record.domain, record.seq, data.asker.job, record.time
        trace = trace_of(domain, job)
        admit, room = span_of(trace, "admit"), span_of(trace, "room", data.request)
        asked, request = self._open("asked").get(job), self._open("requests").pop(job, {"at": now})
        about = {"bailiff.pool": domain, "bailiff.job": job}
        if asked is not None and "told" not in asked:
            asked["told"] = True
            self.spans.append(
                Asked(Span(ADMISSION, f"admit {job}", trace, admit, "", asked["at"], asked["at"], about), asked["cause"])
            )
        parent = admit if asked is not None else ""
        seqs = {"bailiff.request_seq": data.request, "bailiff.decision_seq": seq, "bailiff.verb": data.verb}
        self.spans += [
            Span(ADMISSION, f"find room for {job}", trace, room, parent, request["at"], now, {**about, **seqs}),
            Span(
                SELECTION, "select victims", trace, span_of(trace, "select", data.request), room, request["at"],
                request.get("answered", now), {**about, "bailiff.victims": len(data.victims)},
            ),
        ]  # fmt: skip
        self._open("starting")[job] = {"trace": trace, "parent": room, "at": now, "attempt": data.attempt}
        for victim in data.victims:
            if not victim.reserved:
                self._open("leaving")[victim.job] = {
                    "trace": trace, "parent": room, "span": span_of(trace, "evict", victim.job, seq), "at": now, "domain": domain,
                    "for": job, "attempt": victim.attempt, "tasks": {},
                }  # fmt: skip

    def _event(self, job: str, task: int, name: str, now: int) -> None:
        leaving = self._open("leaving").get(job)
        if leaving is not None:
            leaving["tasks"].setdefault(str(task), []).append([name, now])

    def _released(self, data: facts.TaskReleased, now: int) -> None:
        leaving = self._open("leaving").get(data.job)
        if leaving is not None:
            events = tuple((name, at) for name, at in leaving["tasks"].pop(str(data.task), []))
            trace: str = leaving["trace"]
            start: int = leaving["begun"] if "begun" in leaving else leaving["at"]
            self.spans.append(Span(
                AGENT, f"stop {data.job}/{data.task}", trace, span_of(trace, "stop", leaving["span"], data.task), leaving["span"],
                start, now, {"bailiff.node": data.node, "bailiff.job": data.job, "bailiff.task": data.task}, events,
            ))  # fmt: skip

    def _left(self, data: Any, now: int) -> None:
        leaving = self._open("leaving").pop(data.job, None)
        if leaving is None:
            return
        outcome = getattr(data, "outcome", "withdrawn")
        about = {
            "bailiff.job": data.job, "bailiff.for_job": leaving["for"], "bailiff.outcome": outcome,
            "bailiff.lost_gpu_ms": getattr(data, "lost_gpu_ms", 0),
        }  # fmt: skip
        trace, span = leaving["trace"], leaving["span"]
        self.spans.append(Span(EXECUTOR, f"evict {data.job}", trace, span, leaving["parent"], leaving["at"], now, about))
        if isinstance(data, decisions.JobRequeued):
            self._open("displaced")[data.job] = {"trace": trace, "parent": span, "at": now, "attempt": data.attempt}

    def _runs(self, job: str, now: int) -> None:
        for name, title in (("starting", "start"), ("displaced", "resume")):
            self._ended(name, title, job, now, "running")

    def _gone(self, data: decisions.JobEnded, now: int) -> None:
        self._ended("displaced", "resume", data.job, now, data.outcome)
        for name in ("asked", "requests", "starting"):
            self._open(name).pop(data.job, None)

    def _ended(self, name: str, title: str, job: str, now: int, outcome: str) -> None:
        found = self._open(name).pop(job, None)
        if found is not None:
            trace, parent = found["trace"], found["parent"]
            self.spans.append(Span(
                ADMISSION, f"{title} {job}", trace, span_of(trace, title, job, found["attempt"]), parent, found["at"], now,
                {"bailiff.job": job, "bailiff.outcome": outcome},
            ))  # fmt: skip
