"""The outcome table of the job contract: the outcome of a task, and of a gang. What ended it decides, not its exit code."""

from typing import Literal

from bailiff_core.model.state import Job, Task

from .eviction_causes import GANG_FAILURE

YIELDED = 85
EXIT_0_AFTER_NOTICE = "exit-0-after-notice"
EXIT_85_WITHOUT_NOTICE = "exit-85-without-notice"
NEVER_STARTED = "never-started"
Outcome = Literal["finished", "preempted", "preempted-unclean", "yielded", "failed", "lost"]


def task_outcome(job: Job, task: Task) -> Outcome:
    """The outcome of one task that has ended. What happened first is its cause.

    Exit code 0 is finished; after a notice only with `done`, or `on_term: finish`. After its eviction's notice, TERM or KILL it
    is preempted, whatever follows: any exit code, an unknown one, a broken device, a lost node. That is unclean unless it
    acknowledged, exited with 0 or 85, or was saved by its node. Before the notice: without an exit code, or with
    a failure on a broken device, it is lost; 85 is preempted if its eviction is decided, else yielded; any other code is failed.
    """
    code = task.exit_code
    if task.finished:
        return "finished"
    if task.notified:
        saved = "stored" in task.stage_times or "parked" in task.stage_times
        clean = task.acknowledged or saved or code in (0, YIELDED)
        return "preempted" if clean else "preempted-unclean"
    if code is None or (code != YIELDED and task.device_failed):
        return "lost"
    if code != YIELDED:
        return "failed"
    evicted = task.eviction is not None or (job.eviction is not None and job.eviction.cause != GANG_FAILURE)
    return "preempted" if evicted else "yielded"


def attempt_outcome(job: Job) -> Outcome:
    """The worst outcome of the gang's tasks: failed, lost, yielded, unclean, preempted; finished only if all are.

    Tasks that never started do not count, nor do tasks that were evicted singly, unless there are no others.
    """
    ended = [task for task in job.tasks if task.state in ("exited", "released")]
    not_evicted_singly = [task for task in ended if task.eviction is None]
    found = [task_outcome(job, task) for task in not_evicted_singly or ended]
    order: tuple[Outcome, ...] = ("failed", "lost", "yielded", "preempted-unclean", "preempted", "finished")
    return next(entry for entry in order if entry in found)


def rule_of(job: Job, outcome: Outcome) -> str:
    """The rule that made this outcome of the job, where it does not follow from the exit codes alone; else empty."""
    if outcome == "yielded":
        return EXIT_85_WITHOUT_NOTICE
    if outcome == "lost":
        return NEVER_STARTED if job.last_start is None and any(task.start_failed for task in job.tasks) else ""
    if not outcome.startswith("preempted"):
        return ""
    return EXIT_0_AFTER_NOTICE if any(_exited_with_0_after_notice(task) for task in job.tasks) else ""


def _exited_with_0_after_notice(task: Task) -> bool:
    return task.exit_code == 0 and task.notified and not task.reported_done and not task.acknowledged
