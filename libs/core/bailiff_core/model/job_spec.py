"""The private part of a job, and the labels of nodes that can run it."""

import hashlib
from typing import Annotated

import orjson
from pydantic import Field

from bailiff_core.canonical import json_bytes

from .document import Document, Name
from .privacy import SECRET

EVERY_NODE_RUNTIMES = ("process", "simulated")
"""Runtimes that every node has."""
TERMINAL_RUNTIMES = ("process", "docker")
"""Runtimes whose tasks may have a terminal."""
SET_BY_BAILIFF = frozenset(
    (
        *("BAILIFF_JOB_ID", "BAILIFF_ATTEMPT", "BAILIFF_TASK", "BAILIFF_CONTROL_DIR", "BAILIFF_SOCKET", "BAILIFF_GRACE_S"),
        *("BAILIFF_CHECKPOINT_DIR", "BAILIFF_RESUME_FROM", "BAILIFF_SCRATCH_DIR", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
        *("CUDA_VISIBLE_DEVICES", "BAILIFF_GPU_FRACTION", "BAILIFF_GPU_MEMORY_BYTES"),
        *("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    )
)
"""Variables of every task, which the job cannot set itself."""
IMAGE = r"^[a-zA-Z0-9][a-zA-Z0-9._/:@-]*$"


def runtime_label(name: str) -> str:
    """A node that runs images with this runtime has this label with the value `true`; a job with an image requires it."""
    return f"bailiff.runtime/{name}"


def sharing_label(name: str) -> str:
    """A node where this runtime's tasks can have parts of a GPU has this label as well; a job that requests one requires it."""
    return f"bailiff.shared-gpus/{name}"


ADDED_LABELS = (runtime_label(""), sharing_label(""))
"""Begin the labels that admission adds to those that a task requires."""


WORKLOAD_UID = "kubernetes/uid"
"""A job that stands for a Kubernetes workload has this label, with the workload's uid. A bridge sets it."""


class Workload(Document):
    """The Kubernetes object whose pods are the job's tasks, for example one of the group batch. Its own controller makes them."""

    api_version: Annotated[str, Field(min_length=1, max_length=253)]
    kind: Annotated[str, Field(min_length=1, max_length=63)]
    namespace: Annotated[str, Field(min_length=1, max_length=63)]
    name: Annotated[str, Field(min_length=1, max_length=253)]
    uid: Annotated[str, Field(min_length=1, max_length=64)]


class JobSpec(Document):
    """The private part of a job: it goes to `bailiff.job-specs` and to the node, never into the audit log.

    Attributes:
        command: A program with its arguments, or one line for the shell; none for a workload.
        runtime: `simulated` runs no process, for `BAILIFF_SIM_RUN_FOR` seconds; `docker` runs a container of `image`;
            `kubernetes` runs a pod.
        workload: A workload whose pods the node does not create; only the Kubernetes bridge may submit one.
        secrets: Names that the node resolves, by the variable that holds the value.
        tty: Run each task under a pseudo-terminal, to which people can attach.
    """

    TREATMENT = SECRET
    command: Annotated[tuple[str, ...], Field(min_length=1)] | Annotated[str, Field(min_length=1)] | None = None
    env: dict[str, str] = Field(default_factory=dict)
    working_dir: str | None = None
    secrets: dict[str, str] = Field(default_factory=dict)
    runtime: Name = "process"
    image: Annotated[str, Field(min_length=1, max_length=1000, pattern=IMAGE)] | None = None
    tty: bool = False
    workload: Workload | None = None


def spec_of(data: bytes) -> bytes:
    """The private part of a submission's data as sent, as canonical JSON."""
    return json_bytes(orjson.loads(data)["spec"])


def spec_digest(salt: bytes, spec: bytes) -> str:
    """SHA-256(salt ‖ canonical JSON of the spec), in hex."""
    return hashlib.sha256(salt + spec).hexdigest()
