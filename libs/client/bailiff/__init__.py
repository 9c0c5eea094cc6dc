"""The Python client of Bailiff.

    with bailiff.connect() as b:
        job = b.submit("python train.py", gpus=4, priority_class="train", project="vision")
        for event in job.watch():
            print(event)
        job.wait(timeout="2h")

`bailiff.aio` is the same for asyncio. Results are frozen dataclasses (`results`, `pool_results`), errors are types of their own.

Packages: `aio` (the client), `sync` (the same, without `await`), `client` (requests, previews, job files and other input files),
`cli` (the `bailiff` command), `audit` (verify, replay, prove), `explain`, `render` (state and records as data, tables and text),
`dataset`, `policy`, `simulation`, `notify`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bailiff import aio
    from bailiff.client.client import Client, Outcome, SentRequest
    from bailiff.client.errors import (
        ClientError,
        ExitCode,
        InvalidRequest,
        JobFailed,
        JobNotFound,
        JobRejected,
        NoAnswer,
        NotPermitted,
        PoolNotFound,
        ProjectNotFound,
        Rejected,
        Timeout,
        Unreachable,
        UnreadableLog,
    )
    from bailiff.client.settings import ClientSettings
    from bailiff.fields import JobFields, JobFile
    from bailiff.pool_results import (
        Accounting,
        Amounts,
        ChangedJob,
        Gpu,
        GpuHours,
        Node,
        Policy,
        Pool,
        Project,
        Run,
        Verification,
        WhatIf,
    )
    from bailiff.results import (
        Accepted,
        Event,
        Explanation,
        JobStatus,
        LogLine,
        Plan,
        Section,
        Sentence,
        Task,
        Victim,
    )
    from bailiff.sync import Audit, Connection, Job, PolicyOfPool, connect

__all__ = [
    "Accepted",
    "Accounting",
    "Amounts",
    "Audit",
    "ChangedJob",
    "Client",
    "ClientError",
    "ClientSettings",
    "Connection",
    "Event",
    "ExitCode",
    "Explanation",
    "Gpu",
    "GpuHours",
    "InvalidRequest",
    "Job",
    "JobFailed",
    "JobFields",
    "JobFile",
    "JobNotFound",
    "JobRejected",
    "JobStatus",
    "LogLine",
    "NoAnswer",
    "Node",
    "NotPermitted",
    "Outcome",
    "Plan",
    "Policy",
    "PolicyOfPool",
    "Pool",
    "PoolNotFound",
    "Project",
    "ProjectNotFound",
    "Rejected",
    "Run",
    "Section",
    "SentRequest",
    "Sentence",
    "Task",
    "Timeout",
    "Unreachable",
    "UnreadableLog",
    "Verification",
    "Victim",
    "WhatIf",
    "aio",
    "connect",
]  # fmt: skip

_NAMES = {
    "sync": ("Audit", "Connection", "Job", "PolicyOfPool", "connect"),
    "results": ("Accepted", "Event", "Explanation", "JobStatus", "LogLine", "Plan", "Section", "Sentence", "Task", "Victim"),
    "pool_results": (
        "Accounting", "Amounts", "ChangedJob", "Gpu", "GpuHours", "Node", "Policy", "Pool", "Project", "Run",
        "Verification", "WhatIf",
    ),
    "fields": ("JobFields", "JobFile"),
    "client.client": ("Client", "Outcome", "SentRequest"),
    "client.settings": ("ClientSettings",),
    "client.errors": (
        "ClientError", "ExitCode", "InvalidRequest", "JobFailed", "JobNotFound", "JobRejected", "NoAnswer", "NotPermitted",
        "PoolNotFound", "ProjectNotFound", "Rejected", "Timeout", "Unreachable", "UnreadableLog",
    ),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loads a name on first use, so that the `bailiff` command starts without the client, and `import bailiff` is quick."""
    if name == "aio":
        return import_module("bailiff.aio")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"bailiff.{_MODULE_OF[name]}"), name)
