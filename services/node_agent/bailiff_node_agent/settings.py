"""Settings of the node agent."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_core.model.document import Label, Name
from bailiff_service.settings import FILE_VARIABLE, ServiceSettings

from .devices import inventory_plugin
from .kubernetes_settings import KubernetesSettings
from .runtime.registry import MODULES
from .users import RunAs

GIB = 1 << 30
SNAPSHOTS = ".bailiff-snapshots"
"""Folder of the snapshots of all jobs, beside their checkpoint directories: names of jobs begin with a letter or a digit."""
ADDRESS = r"^[A-Za-z0-9._:%\[\]-]{1,253}:[0-9]{1,5}$"


class NodeDeclaration(BaseModel):
    """One machine, or with `count` that many simulated ones, named `name-0`, `name-1` ….

    gpus: `nvml` for this machine's own GPUs, `kubernetes` for those that its kubelet gives out, simulated ones such as
    `8xH100-80GB`, or `0`. cpu_milli, memory_bytes: what jobs may use; by default all of this machine for its own GPUs, and
    16 cores and 128 GiB per GPU for simulated ones. parking_bytes: memory that is kept for parked jobs, of what they may not use;
    0: none is parked. runtimes: `process`; `docker` or `kubernetes` run jobs that name an image,
    and the node then has the label `bailiff.runtime/docker` or `bailiff.runtime/kubernetes`. selector: with
    `kubernetes.api_only` every node of the cluster with these labels, under its own name, also those that are added later; `name`
    then only names the group.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    pool: Name
    gpus: str = "nvml"
    count: Annotated[int, Field(ge=1, le=10_000)] | None = None
    cpu_milli: Annotated[int, Field(ge=0)] | None = None
    memory_bytes: Annotated[int, Field(ge=0)] | None = None
    parking_bytes: Annotated[int, Field(ge=0, le=2**53 - 1)] = 0
    max_tasks: Annotated[int, Field(ge=1)] = 1000
    labels: dict[Label, Label] = Field(default_factory=dict)
    runtimes: tuple[str, ...] = ("process",)
    machine_id: str | None = None
    selector: dict[Label, Label] | None = None

    @field_validator("runtimes")
    @classmethod
    def _runtimes_exist(cls, runtimes: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in runtimes if name not in MODULES]
        if unknown:
            raise ValueError(f"unknown runtime {unknown[0]!r}; this release has {', '.join(MODULES)}")
        if "process" not in runtimes:
            raise ValueError("process is missing: jobs without an image can be placed on every node")
        return runtimes

    def each(self) -> list["NodeDeclaration"]:
        """The single machines that this declares; none by a selector, whose nodes the cluster names."""
        if self.selector is not None:
            return []
        if self.count is None:
            return [self]
        return [self.model_copy(update={"name": f"{self.name}-{n}", "count": None}) for n in range(self.count)]

    def host_capacity(self, gpus: int) -> tuple[int, int]:
        """CPU in millicores and memory in bytes that jobs may use, without what is kept for parked ones. gpus: how many."""
        if inventory_plugin(self.gpus).real:
            pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
            cpu_milli, memory_bytes = (os.cpu_count() or 1) * 1000, pages * size
        else:
            cpu_milli, memory_bytes = max(1, gpus) * 16_000, max(1, gpus) * 128 * GIB
        return (
            cpu_milli if self.cpu_milli is None else self.cpu_milli,
            max(0, memory_bytes - self.parking_bytes) if self.memory_bytes is None else self.memory_bytes,
        )


class NodeAgentSettings(ServiceSettings):
    """Settings in addition to the common ones. durable: keep fences and reports on disk; off only for simulated nodes in bulk.

    release_timeout_s: a GPU that is not free this long after its task's exit is quarantined. device_poll_s: interval between
    checks of quarantined devices, and of the health of all. log_bytes: disk space of a task's log before its older half is
    moved to `<log>.1`; 0: no limit. ended_log_days: how long the logs of ended tasks stay on the node; 0: for ever.
    ended_log_bytes: disk space of all of them: what does not fit beside newer ones is removed; 0: no limit. cgroups: put each
    task into a cgroup v2 of its own, below cgroup_root or where this host permits. run_as: the user that tasks run as where
    the agent is root: `submitter`, the user of this machine with the submitter's name, or the one that run_as_names maps it
    to, with a uid of at least run_as_lowest_uid; or `agent`. isolate_jobs: hide the state folder, keys, secrets and
    environment of the agent from tasks that run as its own user. hidden_from_jobs: further folders and files to hide from
    them. criu: the program CRIU, by its name in PATH or its path, which saves and restores tasks where the agent is root; empty:
    never.
    credentials: a folder with a folder of keys for each node, by its name. enrolment_token, enrolment_token_file: what
    `bailiff node enrol` prints, for a node without a certificate; needed until it is enrolled.
    kubernetes: of the runtime with that name, as JSON. docker_engine: the socket of this machine's Docker engine.
    docker_network: the network of containers, `host` for gangs over several nodes. shared_checkpoints: a folder that all nodes
    share, for the checkpoints of jobs; without it each node keeps its own. telemetry_s: interval of GPU telemetry; 0: never.
    attach_listen: where people connect to the terminals and ports of jobs, `HOST:PORT`, port 0 for any; without it nobody can.
    attach_address: the address by which they reach it, if it is another one.
    """

    nodes: Annotated[tuple[NodeDeclaration, ...], Field(min_length=1)]
    heartbeat_s: Annotated[float, Field(gt=0)] = 10.0
    release_poll_s: Annotated[float, Field(gt=0)] = 0.1
    release_timeout_s: Annotated[float, Field(gt=0)] = 60.0
    device_poll_s: Annotated[float, Field(gt=0)] = 5.0
    cgroups: bool = True
    cgroup_root: Path | None = None
    shared_checkpoints: Path | None = None
    run_as: RunAs = "submitter"
    run_as_names: dict[str, str] = Field(default_factory=dict)
    run_as_lowest_uid: Annotated[int, Field(ge=0)] = 1000
    isolate_jobs: bool = True
    hidden_from_jobs: tuple[Path, ...] = ()
    durable: bool = True
    criu: str = "criu"
    docker_engine: Annotated[str, Field(pattern=r"^unix://")] = "unix:///var/run/docker.sock"
    docker_network: str = "host"
    kubernetes: KubernetesSettings = KubernetesSettings()
    enrolment_token: SecretStr | None = None
    enrolment_token_file: Path | None = None
    secrets_dir: Path | None = None
    master_address: str | None = None
    ship_logs: bool = True
    telemetry_s: Annotated[float, Field(ge=0)] = 15.0
    log_bytes: Annotated[int, Field(ge=0)] = 256 << 20
    ended_log_days: Annotated[float, Field(ge=0)] = 7.0
    ended_log_bytes: Annotated[int, Field(ge=0)] = 32 * GIB
    attach_listen: Annotated[str, Field(pattern=ADDRESS)] | None = None
    attach_address: Annotated[str, Field(pattern=ADDRESS)] | None = None

    @model_validator(mode="after")
    def _nodes_fit(self) -> "NodeAgentSettings":
        for node in self.nodes:
            if node.selector is not None and not self.kubernetes.api_only:
                raise ValueError(f"nodes: {node.name} has a selector, which needs kubernetes.api_only")
            if self.kubernetes.api_only and (node.gpus != "kubernetes" or "kubernetes" not in node.runtimes):
                raise ValueError(f'nodes: with kubernetes.api_only {node.name} needs gpus and a runtime named "kubernetes"')
        return self

    @property
    def hidden(self) -> tuple[Path, ...]:
        """What tasks that run as the agent's own user do not see, where it exists."""
        keys = [getattr(self.kafka, name) for name in KafkaSettings.model_fields if name.endswith("keyfile")]
        settings_file = os.environ.get(FILE_VARIABLE)
        named = (
            self.secrets_dir,
            self.credentials,
            self.enrolment_token_file,
            Path(settings_file) if settings_file else None,
            *keys,
        )
        shared = self.shared_checkpoints
        snapshots = [] if shared is None else [shared / each.pool / SNAPSHOTS for each in self.nodes]
        return (self.state_dir, *snapshots, *self.hidden_from_jobs, *(path for path in named if path is not None))
