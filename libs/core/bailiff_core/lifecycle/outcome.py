"""The outcome table of the job contract: what an exit means."""

from typing import Literal

from bailiff_core.model.state import Job, Task

YIELDED = 85
Verdict = Literal["finished", "preempted", "preempted-unclean", "failed", "lost"]


def verdict(task: Task) -> Verdict:
    """What one task's end means.

    Acknowledged, then any code: preempted; 85: preempted, by its own word; 143 or -15 after TERM, 137 or -9 after KILL:
    preempted, unclean. On a device that broke it is no failure of the job, and of a member that was told to leave alone none
    of the gang, whatever it ended with.
    """
    code = task.exit_code
    if code is None or (code not in (0, YIELDED) and task.device_failed):
        return "lost"
    if task.acknowledged or code == YIELDED:
        return "preempted"
    if (task.term_sent and code in (143, -15)) or (task.kill_sent and code in (137, -9)):
        return "preempted-unclean"
    if code and task.eviction is not None and _told(task):
        return "preempted-unclean"
    return "finished" if code == 0 else "failed"


def gang_verdict(job: Job) -> Verdict:
    """The gang's: the worst of its members', in the order failed, lost, unclean, preempted; finished when all are.

    Members that were never there do not count, nor do those that left alone. Where a member of a gang that was told to
    leave has acknowledged, the others that were told fail because it left: that is no failure.
    """
    ended = [task for task in job.tasks if task.state in ("exited", "released")]
    alone = [task for task in ended if task.eviction is None]
    leaves = job.eviction is not None and any(task.acknowledged for task in ended)
    found = {_in_gang(task, leaves) for task in alone or ended}
    order: tuple[Verdict, ...] = ("failed", "lost", "preempted-unclean", "preempted", "finished")
    return next(entry for entry in order if entry in found)


def _in_gang(task: Task, leaves: bool) -> Verdict:
    found = verdict(task)
    return "preempted-unclean" if found == "failed" and leaves and _told(task) else found


def _told(task: Task) -> bool:
    return task.noticed or task.term_sent or task.kill_sent
