"""The outcome table of the job contract: the outcome of a task, and of a gang, from exit codes and eviction stages."""

from typing import Literal

from bailiff_core.model.state import Job, Task

YIELDED = 85
GANG_FAILURE = "gang-failure"
EXIT_0_AFTER_NOTICE = "exit-0-after-notice"
EXIT_85_WITHOUT_NOTICE = "exit-85-without-notice"
Verdict = Literal["finished", "preempted", "preempted-unclean", "yielded", "failed", "lost"]


def verdict(task: Task) -> Verdict:
    """The outcome of one exited task.

    Acknowledged, then any code: preempted; 85: preempted, as reported by the task, or yielded where nothing asked it to leave;
    143 or -15 after TERM, 137 or -9 after KILL: preempted, unclean. 0: finished; after a notice preempted, unless the task said
    that it was done: shells and servers answer TERM with 0. No exit code, or a failure on a broken device: lost. Any other
    nonzero code of a notified task that is evicted singly: preempted, unclean.
    """
    code = task.exit_code
    if code == 0 and task.reported_done:
        return "finished"
    if code is None or (code not in (0, YIELDED) and task.device_failed):
        return "lost"
    if task.acknowledged:
        return "preempted"
    if code == YIELDED:
        return "preempted" if task.notified or task.eviction is not None else "yielded"
    if (task.term_sent and code in (143, -15)) or (task.kill_sent and code in (137, -9)):
        return "preempted-unclean"
    if code and task.eviction is not None and task.notified:
        return "preempted-unclean"
    if code == 0:
        return "preempted" if task.notified else "finished"
    return "failed"


def verdict_of(job: Job, task: Task) -> Verdict:
    """As `verdict`. A task that exits with 85 between the decision to evict its job and its notice is preempted."""
    found = verdict(task)
    evicted = job.eviction is not None and job.eviction.cause != GANG_FAILURE
    return "preempted" if found == "yielded" and evicted else found


def rule_of(job: Job, outcome: Verdict) -> str:
    """The rule that made this outcome of the job, where it does not follow from the exit codes alone; else empty."""
    if outcome == "yielded":
        return EXIT_85_WITHOUT_NOTICE
    if not outcome.startswith("preempted"):
        return ""
    return EXIT_0_AFTER_NOTICE if any(_exited_with_0_after_notice(task) for task in job.tasks) else ""


def _exited_with_0_after_notice(task: Task) -> bool:
    return task.exit_code == 0 and task.notified and not task.reported_done and not task.acknowledged


def gang_verdict(job: Job) -> Verdict:
    """The worst outcome of the gang's tasks: failed, lost, yielded, unclean, preempted; finished only if all are.

    Tasks that never started do not count, nor do tasks that were evicted singly, unless there are no others. In a gang that
    is evicted, once one task has acknowledged, a failure of another notified task counts as a consequence of the eviction.
    """
    ended = [task for task in job.tasks if task.state in ("exited", "released")]
    not_evicted_singly = [task for task in ended if task.eviction is None]
    yielding = job.eviction is not None and any(task.acknowledged for task in ended)
    found = {_verdict_in_gang(job, task, yielding) for task in not_evicted_singly or ended}
    order: tuple[Verdict, ...] = ("failed", "lost", "yielded", "preempted-unclean", "preempted", "finished")
    return next(entry for entry in order if entry in found)


def _verdict_in_gang(job: Job, task: Task, yielding: bool) -> Verdict:
    found = verdict_of(job, task)
    return "preempted-unclean" if found == "failed" and yielding and task.notified else found
