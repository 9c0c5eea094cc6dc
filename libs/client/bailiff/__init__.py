"""The Python client of Bailiff.

    with bailiff.connect() as b:
        job = b.submit("python train.py", gpus=4, priority_class="train", project="vision")
        for event in job.watch():
            print(event)
        job.wait(timeout="2h")

`bailiff.aio` is the same for asyncio. Results are frozen dataclasses (`results`, `pool_results`), errors are types of their own.

Packages: `aio` (the client), `sync` (the same, without `await`), `client` (requests, previews, job files and other input files),
`cli` (the `bailiff` command), `tables` (what it prints), `audit` (verify, replay, prove), `explain`, `render` (state and records
as data and sentences), `doctor`, `dataset`, `policy`, `simulation`, `notify`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # `as`: these are the names of the package
    from bailiff import aio as aio  # noqa: I001 - one statement for each module
    from bailiff.client.client import Client as Client, Outcome as Outcome, SentRequest as SentRequest
    from bailiff.client.errors import (
        ClassNotFound as ClassNotFound,
        ClientError as ClientError,
        ExitCode as ExitCode,
        InvalidRequest as InvalidRequest,
        JobFailed as JobFailed,
        JobNotFound as JobNotFound,
        JobRejected as JobRejected,
        NoAnswer as NoAnswer,
        NodeNotFound as NodeNotFound,
        NotFound as NotFound,
        NotPermitted as NotPermitted,
        PoolNotFound as PoolNotFound,
        ProjectNotFound as ProjectNotFound,
        Rejected as Rejected,
        Timeout as Timeout,
        Unreachable as Unreachable,
        UnreadableLog as UnreadableLog,
        UserNotFound as UserNotFound,
    )
    from bailiff.client.settings import ClientSettings as ClientSettings
    from bailiff.fields import JobFields as JobFields, JobFile as JobFile
    from bailiff.pool_results import (
        Accounting as Accounting,
        Amounts as Amounts,
        Budget as Budget,
        ChangedJob as ChangedJob,
        Gpu as Gpu,
        GpuHours as GpuHours,
        Node as Node,
        Policy as Policy,
        Pool as Pool,
        Project as Project,
        Run as Run,
        Verification as Verification,
        WhatIf as WhatIf,
    )
    from bailiff.results import (
        Accepted as Accepted,
        Event as Event,
        Explanation as Explanation,
        JobStatus as JobStatus,
        LogLine as LogLine,
        Plan as Plan,
        Section as Section,
        Sentence as Sentence,
        Task as Task,
        Victim as Victim,
    )
    from bailiff.sync import (
        Audit as Audit,
        Budgets as Budgets,
        Connection as Connection,
        Job as Job,
        PolicyOfPool as PolicyOfPool,
        connect as connect,
    )

_NAMES = {
    "sync": ("Audit", "Budgets", "Connection", "Job", "PolicyOfPool", "connect"),
    "results": ("Accepted", "Event", "Explanation", "JobStatus", "LogLine", "Plan", "Section", "Sentence", "Task", "Victim"),
    "pool_results": (
        "Accounting",
        "Amounts",
        "Budget",
        "ChangedJob",
        "Gpu",
        "GpuHours",
        "Node",
        "Policy",
        "Pool",
        "Project",
        "Run",
        "Verification",
        "WhatIf",
    ),
    "fields": ("JobFields", "JobFile"),
    "client.client": ("Client", "Outcome", "SentRequest"),
    "client.settings": ("ClientSettings",),
    "client.errors": (
        "ClassNotFound",
        "ClientError",
        "ExitCode",
        "InvalidRequest",
        "JobFailed",
        "JobNotFound",
        "JobRejected",
        "NoAnswer",
        "NodeNotFound",
        "NotFound",
        "NotPermitted",
        "PoolNotFound",
        "ProjectNotFound",
        "Rejected",
        "Timeout",
        "Unreachable",
        "UnreadableLog",
        "UserNotFound",
    ),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted([*_MODULE_OF, "aio"])


def __getattr__(name: str) -> Any:
    """Loads a name on first use, so that the `bailiff` command starts without the client, and `import bailiff` is quick."""
    if name == "aio":
        return import_module("bailiff.aio")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bailiff.{_MODULE_OF[name]}"), name)
