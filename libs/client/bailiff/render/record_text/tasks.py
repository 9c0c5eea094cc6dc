"""Text of records about tasks, as their nodes report them."""

from collections.abc import Mapping

from bailiff_core.explain.eviction_stages import NOT_RESTORED
from bailiff_core.humanize import cost_text, count_text, duration_text, exit_text, memory_text, user_text
from bailiff_core.model.state import Job, PoolState
from bailiff_core.records import Record, facts

from .line import Statement
from .phrases import joined
from .registry import Entries

describes = Entries()


def _task_started_word(record: Record, fact: facts.TaskStarted, state: PoolState) -> str:
    """The event type once the last of the tasks that start does; empty for others."""
    job = state.jobs.get(fact.job)
    task = job.task(fact.task) if job is not None and job.phase == "running" else None
    if job is None or task is None or task.started_at != record.time:
        return ""
    if job.last_start == record.time:
        return _running_word(job)
    more_start = any(other.state == "starting" and other.eviction is None for other in job.tasks)
    return "" if more_start or state.seq != record.seq else "Grown"  # a later state does not tell which was the last


def _running_word(job: Job) -> str:
    if job.attempt > 1 and job.last_eviction is not None and job.last_eviction >= job.pending_since:
        return "Resumed"
    # Attempts that had a reservation only, or were never started, count as attempts.
    never_ran = job.first_wait is not None and job.submitted_at + job.first_wait == job.last_start
    return "Started" if never_ran else "Restarted"


SECOND = 1_000_000
ATTACH_ENDS: Mapping[facts.AttachEnd, str] = {
    "detached": "the client detached",
    "task-ended": "the task ended",
    "expired": "nobody connected in time",
    "agent-restarted": "the node agent was restarted",
    "no-terminal": "the task has no terminal",
    "no-shell": "its node cannot open a shell beside it",
    "not-running": "the task does not run",
    "not-offered": "the node accepts no attachments",
    "failed": "the connection failed",
}
"""Why an attachment ended, for people."""


def _task(fact: facts.TaskFact) -> str:
    return f"{fact.job}/{fact.task}"


def _on(fact: facts.TaskFact, *more: str) -> str:
    return joined(f"on {fact.node}", f"attempt {fact.attempt}" if fact.attempt > 1 else "", *more)


@describes(facts.TaskStarted, event=_task_started_word)
def _task_started(fact: facts.TaskStarted, _state: PoolState) -> Statement:
    if not fact.not_restored:
        return Statement("task started", _task(fact), _on(fact), "good")
    lost = f"not restored, which loses {cost_text(fact.lost_gpu_ms)} of work: {NOT_RESTORED[fact.not_restored]}"
    return Statement("task started", _task(fact), _on(fact, lost), "warn")


@describes(facts.TaskStartRefused)
def _task_start_refused(fact: facts.TaskStartRefused, _state: PoolState) -> Statement:
    return Statement("start refused", _task(fact), _on(fact, fact.reason), "bad")


@describes(facts.TaskExited)
def _task_exited(fact: facts.TaskExited, _state: PoolState) -> Statement:
    how = "exit not observed" if fact.unobserved else f"{'by ' if fact.exit_code < 0 else ''}{exit_text(fact.exit_code)}"
    last = f"last step {fact.step}" if fact.step is not None else ""
    return Statement("task exited", _task(fact), _on(fact, how, fact.reason, last), "" if fact.exit_code == 0 else "warn")


@describes(facts.TaskProgressed)
def _task_progressed(fact: facts.TaskProgressed, _state: PoolState) -> Statement:
    of = f" of {fact.total_steps}" if fact.total_steps is not None else ""
    step = f"step {fact.step}{of}" if fact.step is not None else ""
    ago = f"{duration_text(fact.checkpoint_age)} ago" if fact.checkpoint_age >= SECOND else ""
    saved = f"checkpoint of {checkpoint_text(fact.checkpoint)}" if fact.checkpoint is not None else ""
    return Statement("progress", _task(fact), _on(fact, step, saved, ago), "quiet")


@describes(facts.TaskResumed)
def _task_resumed(fact: facts.TaskResumed, _state: PoolState) -> Statement:
    source = f"saved by attempt {fact.from_attempt}" if fact.from_attempt is not None else "from the beginning"
    damaged = f"{count_text(fact.skipped_checkpoints, 'damaged checkpoint')} skipped" if fact.skipped_checkpoints else ""
    more = _on(fact, f"at step {fact.step}", source, f"{count_text(fact.steps_lost, 'step')} lost", damaged)
    return Statement("task resumed", _task(fact), more, "warn" if fact.skipped_checkpoints else "good")


@describes(facts.TaskRestored)
def _task_restored(fact: facts.TaskRestored, _state: PoolState) -> Statement:
    took = f"verified in {duration_text(fact.verified)}, restored in {duration_text(fact.restored)}"
    what = f"from the snapshot of attempt {fact.from_attempt}, {memory_text(fact.bytes)} by {fact.driver}"
    if fact.waits:
        return Statement("task restored", _task(fact), _on(fact, what, took, "waits for its gang"), "quiet")
    return Statement("task restored", _task(fact), _on(fact, what, took), "good")


@describes(facts.TaskRestoreFailed)
def _task_restore_failed(fact: facts.TaskRestoreFailed, _state: PoolState) -> Statement:
    lost = f"the snapshot of attempt {fact.from_attempt} is lost, with {cost_text(fact.lost_gpu_ms)} of work"
    return Statement("restore failed", _task(fact), _on(fact, fact.reason, lost), "warn")


def checkpoint_text(checkpoint: facts.Checkpoint) -> str:
    """`step 120, 256MiB in 0.8s`."""
    alone = "" if checkpoint.agreed else ", not coordinated with its gang"
    size = memory_text(checkpoint.bytes)
    return f"step {checkpoint.step}, {size} in {duration_text(checkpoint.duration)}{alone}"


@describes(facts.TaskReleased)
def _task_released(fact: facts.TaskReleased, state: PoolState) -> Statement:
    dirty = sum(_is_quarantined(state, fact.node, reading.device) for reading in fact.after)
    free = len(fact.after) - dirty
    verified = "verified free" if fact.evidence == "node" else "free by the Kubernetes API's word alone"
    seen = f"{count_text(free, 'device')} {verified}" if free else "" if dirty else "its resources are free"
    return Statement("task released", _task(fact), _on(fact, seen, f"{dirty} quarantined" if dirty else ""))


def _is_quarantined(state: PoolState, name: str, device: str) -> bool:
    node = state.nodes.get(state.node_numbers.get(name, -1))
    return node is not None and any(node.quarantined >> each.number & 1 for each in node.devices if each.id == device)


@describes(facts.ShareExceeded, event="ShareExceeded")
def _share_exceeded(fact: facts.ShareExceeded, _state: PoolState) -> Statement:
    more = f"{memory_text(fact.used_bytes)} of {fact.device}, its share is {memory_text(fact.share_bytes)}"
    return Statement("share exceeded", _task(fact), _on(fact, more), "warn")


@describes(facts.TaskIdle)
def _task_idle(fact: facts.TaskIdle, _state: PoolState) -> Statement:
    if not fact.idle:
        return Statement("task active again", _task(fact), _on(fact, "its GPUs are busy"), "good")
    return Statement("task idle", _task(fact), _on(fact, f"its GPUs were idle for {duration_text(fact.duration)}"), "warn")


@describes(facts.TaskVanished)
def _task_vanished(fact: facts.TaskVanished, _state: PoolState) -> Statement:
    return Statement("task vanished", _task(fact), _on(fact, "unknown to its node; exit status unknown"), "bad")


@describes(facts.AttachGranted, event="AttachGranted")
def _attach_granted(fact: facts.AttachGranted, _state: PoolState) -> Statement:
    what = f"to port {fact.port}" if fact.port is not None else "to a shell beside it" if fact.shell else ""
    return Statement("attach granted", _task(fact), _on(fact, what))


@describes(facts.AttachReady)
def _attach_ready(fact: facts.AttachReady, _state: PoolState) -> Statement:
    return Statement("attach ready", _task(fact), _on(fact, f"at {fact.address}"), "quiet")


@describes(facts.AttachStarted, event="Attached")
def _attach_started(fact: facts.AttachStarted, state: PoolState) -> Statement:
    found = state.attachments.get(fact.grant)
    user = user_text(found.user, found.user_verified) if found is not None else ""
    return Statement("attached", _task(fact), _on(fact, user, f"granted by #{fact.grant}"))


@describes(facts.AttachEnded, event="AttachEnded")
def _attach_ended(fact: facts.AttachEnded, _state: PoolState) -> Statement:
    return Statement("attachment ended", _task(fact), _on(fact, ATTACH_ENDS[fact.reason], f"granted by #{fact.grant}"))
