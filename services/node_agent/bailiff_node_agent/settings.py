"""Settings of the node agent: which machines it speaks for."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bailiff_bus.settings import ServiceSettings
from bailiff_core.model.document import Label, Name

from .runtime.docker import ENGINE
from .users import RunAs

GIB = 1 << 30


class NodeDeclaration(BaseModel):
    """One machine, or with `count` that many simulated ones, named `name-0`, `name-1` ….

    gpus: `nvml` for this machine's own, or simulated ones such as `8xH100-80GB`, or `0`. CPU and memory: what jobs may
    use; left out, it is this machine's for `nvml`, and 16 cores and 128 GiB per GPU for simulated ones. runtimes: with
    `docker` it also takes jobs that name an image, and says so by the label `bailiff.runtime/docker`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    domain: Name
    gpus: str = "nvml"
    count: Annotated[int, Field(ge=1, le=10_000)] | None = None
    cpu_milli: Annotated[int, Field(ge=0)] | None = None
    memory_bytes: Annotated[int, Field(ge=0)] | None = None
    max_tasks: Annotated[int, Field(ge=1)] = 1000
    labels: dict[Label, Label] = Field(default_factory=dict)
    runtimes: tuple[Literal["process", "docker"], ...] = ("process",)
    machine_id: str | None = None

    @field_validator("runtimes")
    @classmethod
    def _process_is_everywhere(cls, runtimes: tuple[str, ...]) -> tuple[str, ...]:
        if "process" not in runtimes:
            raise ValueError("process belongs to it: jobs without an image are placed on every node")
        return runtimes

    def each(self) -> list["NodeDeclaration"]:
        """The single machines that this declares."""
        if self.count is None:
            return [self]
        return [self.model_copy(update={"name": f"{self.name}-{n}", "count": None}) for n in range(self.count)]

    def room(self, gpus: int) -> tuple[int, int]:
        """CPU in millicores and memory in bytes that jobs may use."""
        if self.gpus == "nvml":
            pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
            cpu_milli, memory_bytes = (os.cpu_count() or 1) * 1000, pages * size
        else:
            cpu_milli, memory_bytes = max(1, gpus) * 16_000, max(1, gpus) * 128 * GIB
        return (
            cpu_milli if self.cpu_milli is None else self.cpu_milli,
            memory_bytes if self.memory_bytes is None else self.memory_bytes,
        )


class NodeAgentSettings(ServiceSettings):
    """On top of the common ones. durable: keep fences and reports on disk; off only for simulated nodes in bulk.

    release_timeout_s: a GPU that is not seen free so long after its task is quarantined. device_look_s: how often
    quarantined ones, and the health of all, are looked at. log_bytes: so much disk a task's log takes before its older half is
    moved to `<log>.1`; 0: no limit. cgroups: keep each task in a cgroup v2 of its own, below
    cgroup_root or where this host permits. run_as: as whom tasks run where the agent is root: `submitter`, the user of this
    machine who has the submitter's name, or the one that run_as_names gives that name, with a uid from run_as_lowest_uid on;
    or `agent`. docker_engine: the socket of this machine's Docker engine. docker_network: the network of
    containers, `host` for gangs over several nodes. shared_checkpoints: a folder that is the same one on all nodes, in which jobs
    keep their checkpoints; without it each node keeps them for itself. telemetry_s: how often it is told how busy the GPUs are
    that tasks hold; 0: never.
    """

    nodes: Annotated[tuple[NodeDeclaration, ...], Field(min_length=1)]
    heartbeat_s: Annotated[float, Field(gt=0)] = 5.0
    release_poll_s: Annotated[float, Field(gt=0)] = 0.1
    release_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    device_look_s: Annotated[float, Field(gt=0)] = 5.0
    cgroups: bool = True
    cgroup_root: Path | None = None
    shared_checkpoints: Path | None = None
    run_as: RunAs = "submitter"
    run_as_names: dict[str, str] = Field(default_factory=dict)
    run_as_lowest_uid: Annotated[int, Field(ge=0)] = 1000
    durable: bool = True
    docker_engine: Annotated[str, Field(pattern=r"^unix://")] = ENGINE
    docker_network: str = "host"
    secrets_dir: Path | None = None
    master_address: str | None = None
    ship_logs: bool = True
    telemetry_s: Annotated[float, Field(ge=0)] = 15.0
    log_bytes: Annotated[int, Field(ge=0)] = 256 << 20
