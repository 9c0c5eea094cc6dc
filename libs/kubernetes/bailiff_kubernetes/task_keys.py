"""The key of a task: the annotation `bailiff.io/task` has it whole, the label `bailiff.io/task-hash` its hash."""

from urllib.parse import quote

from .quantities import whole_number


def task_key(job: str, attempt: int, task: str) -> str:
    """The spelling of a task key, a valid file name: bridge and node agent find a task's pod by it."""
    # Without dashes in the task, the last two dashes separate: "a-1" + 2 + "x" is not "a" + 1 + "2-x".
    return f"{quote(job, safe='')}-{attempt}-{quote(task, safe='').replace('-', '%2D')}"


def attempt_of(key: str) -> int | None:
    """The attempt of a task key; None where it is none."""
    parts = key.rsplit("-", 2)
    return whole_number(parts[1]) if len(parts) == 3 else None
