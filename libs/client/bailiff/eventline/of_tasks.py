"""Lines about tasks, as their nodes report them."""

from bailiff_core.model.pool import Pool
from bailiff_core.records import facts
from bailiff_core.words import count_text, duration_text, memory_text

from .line import Said
from .tellers import Tellers
from .words import joined

tells = Tellers()


SECOND = 1_000_000


def _task(fact: facts.TaskFact) -> str:
    return f"{fact.job}/{fact.task}"


def _on(fact: facts.TaskFact, *more: str) -> str:
    return joined(f"on {fact.node}", f"attempt {fact.attempt}" if fact.attempt > 1 else "", *more)


@tells(facts.TaskStarted)
def _task_started(fact: facts.TaskStarted, _pool: Pool) -> Said:
    return Said("task started", _task(fact), _on(fact), "good")


@tells(facts.TaskStartRefused)
def _task_start_refused(fact: facts.TaskStartRefused, _pool: Pool) -> Said:
    return Said("start refused", _task(fact), _on(fact, fact.reason), "bad")


@tells(facts.TaskExited)
def _task_exited(fact: facts.TaskExited, _pool: Pool) -> Said:
    how = "unseen" if fact.unseen else f"exit code {fact.exit_code}" if fact.exit_code >= 0 else f"by signal {-fact.exit_code}"
    last = f"its last step {fact.step}" if fact.step is not None else ""
    return Said("task exited", _task(fact), _on(fact, how, fact.reason, last), "" if fact.exit_code == 0 else "warn")


@tells(facts.TaskProgressed)
def _task_progressed(fact: facts.TaskProgressed, _pool: Pool) -> Said:
    of = f" of {fact.total}" if fact.total is not None else ""
    step = f"step {fact.step}{of}" if fact.step is not None else ""
    ago = f"{duration_text(fact.ago)} ago" if fact.ago >= SECOND else ""
    saved = f"checkpoint of {checkpoint_text(fact.checkpoint)}" if fact.checkpoint is not None else ""
    return Said("progress", _task(fact), _on(fact, step, saved, ago), "quiet")


@tells(facts.TaskResumed)
def _task_resumed(fact: facts.TaskResumed, _pool: Pool) -> Said:
    source = f"saved by attempt {fact.from_attempt}" if fact.from_attempt is not None else "from the beginning"
    damaged = f"{count_text(fact.passed_over, 'damaged checkpoint')} passed over" if fact.passed_over else ""
    more = _on(fact, f"at step {fact.step}", source, f"{count_text(fact.steps_lost, 'step')} lost", damaged)
    return Said("task resumed", _task(fact), more, "warn" if fact.passed_over else "good")


def checkpoint_text(checkpoint: facts.Checkpoint) -> str:
    """`step 120, 256MiB in 0.8s`."""
    alone = "" if checkpoint.agreed else ", without its gang's agreement"
    size = memory_text(checkpoint.bytes)
    return f"step {checkpoint.step}, {size} in {duration_text(checkpoint.microseconds)}{alone}"


@tells(facts.TaskReleased)
def _task_released(fact: facts.TaskReleased, pool: Pool) -> Said:
    dirty = sum(_is_quarantined(pool, fact.node, reading.device) for reading in fact.after)
    free = len(fact.after) - dirty
    seen = f"{count_text(free, 'device')} seen free" if free else "" if dirty else "its room is free"
    return Said("task released", _task(fact), _on(fact, seen, f"{dirty} quarantined" if dirty else ""))


def _is_quarantined(pool: Pool, name: str, device: str) -> bool:
    node = pool.nodes.get(pool.node_numbers.get(name, -1))
    return node is not None and any(node.quarantined >> each.number & 1 for each in node.devices if each.id == device)


@tells(facts.ShareExceeded)
def _share_exceeded(fact: facts.ShareExceeded, _pool: Pool) -> Said:
    more = f"{memory_text(fact.used_bytes)} of {fact.device}, its share is {memory_text(fact.share_bytes)}"
    return Said("over its share", _task(fact), _on(fact, more), "warn")


@tells(facts.TaskIdle)
def _task_idle(fact: facts.TaskIdle, _pool: Pool) -> Said:
    if not fact.idle:
        return Said("task works again", _task(fact), _on(fact, "its GPUs are busy"), "good")
    return Said("task idle", _task(fact), _on(fact, f"its GPUs have done nothing for {duration_text(fact.lasted)}"), "warn")


@tells(facts.TaskVanished)
def _task_vanished(fact: facts.TaskVanished, _pool: Pool) -> Said:
    return Said("task vanished", _task(fact), _on(fact, "the node does not hold it any more; its exit is unknown"), "bad")
