"""Options of `bailiff submit` and `resubmit`: those that are fields of a job, and how it is submitted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from bailiff.client.answers import ANSWER_WITHIN
from bailiff.client.errors import UsageError

PORT_VARIABLE = "BAILIFF_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """A job. Each option is the field of a job file with its name, except those that `fields_given` names."""

    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGUMENTS...]", help="The command to run.", show_default=False)
    ] = None
    name: Annotated[str | None, typer.Option(help="Job name. Default: derived from the command.")] = None
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="Project whose quota is used. Also: BAILIFF_PROJECT.")
    ] = None
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="NAME", help="Submit for another user; only operators may.")
    ] = None
    class_: Annotated[str | None, typer.Option("--class", "-c", help="The priority class.")] = None
    gpus: Annotated[str | None, typer.Option(help="Whole GPUs per task, as in 4.")] = None
    fraction: Annotated[str | None, typer.Option(help="Fraction of a GPU per task, as in 0.5.")] = None
    gpu_memory: Annotated[str | None, typer.Option(help="GPU memory per task on a shared GPU, as in 4GiB.")] = None
    gpu_devices: Annotated[int | None, typer.Option(help="Number of GPUs on which the fraction is used, or of MIG devices.")] = (
        None
    )
    mig: Annotated[str | None, typer.Option(metavar="PROFILE", help="One MIG device per task, as in 3g.40gb.")] = None
    cpu: Annotated[str | None, typer.Option(help="Cores per task, as in 2 or 500m.")] = None
    memory: Annotated[str | None, typer.Option(help="Memory per task, as in 8GiB.")] = None
    tasks: Annotated[int | None, typer.Option(help="Number of identical tasks.")] = None
    min_tasks: Annotated[
        int | None, typer.Option(help="Minimum number of tasks that must run; others are elastic. Default: all.")
    ] = None
    tty: Annotated[
        bool | None, typer.Option(help="Run the tasks under a pseudo-terminal, for bailiff attach. Default: with --interactive.")
    ] = None
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port that the job serves, passed in BAILIFF_PORT; see port-forward.")
    ] = None
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Environment variable; repeatable.")] = None
    secret: Annotated[
        list[str] | None, typer.Option(metavar="VARIABLE=SECRET", help="Environment variable from a named secret of the node.")
    ] = None
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Label, recorded in the audit log; repeatable.")
    ] = None
    node_label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only on nodes with this label.")] = None
    gpu_model: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Only on this GPU model; repeatable.")] = None
    topology: Annotated[
        str | None, typer.Option(metavar="NAME:LEVEL", help="Place all tasks in one topology domain, as in racks:rack.")
    ] = None
    near: Annotated[str | None, typer.Option(metavar="NAME:LEVEL", help="As --topology, but preferred, not required.")] = None
    pack: Annotated[str | None, typer.Option(help="binpack or spread. Default: the policy's.")] = None
    placement: Annotated[
        str | None, typer.Option(help="'prefer nvlink' (GPUs on one NVLink island if possible) or any. Default: the policy's.")
    ] = None
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB[:succeeded|ended]",
            help="Wait until this job has succeeded (default) or ended, or all jobs of an array, or your jobs that match "
            "a pattern as in 'prep-*'; repeatable.",
        ),
    ] = None
    begin: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start no earlier, as in 2026-12-24T08:00+01:00; without a zone: UTC.")
    ] = None
    run_time_limit: Annotated[str | None, typer.Option(metavar="TIME", help="Run time limit, as in 2h.")] = None
    grace: Annotated[str | None, typer.Option(help="Grace period between notice and KILL, as in 30s.")] = None
    kill_after: Annotated[str | None, typer.Option(help="Part of the grace period between TERM and KILL, as in 5s.")] = None
    preemptible: Annotated[bool | None, typer.Option(help="Whether the job may be preempted. Default: that of its class.")] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Who saves its work in an eviction: job, snapshot (its node), auto, none. Default: that of its class."),
    ] = None
    checkpoint_every: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often its nodes save it while it runs, as in 30m. Default: never.")
    ] = None
    on_eviction: Annotated[str | None, typer.Option(help="requeue (default) or end.")] = None
    on_term: Annotated[
        str | None, typer.Option(help="What exit code 0 after an eviction notice means: restart (default) or finish.")
    ] = None
    max_failures: Annotated[
        int | None, typer.Option(help="Maximum number of retries after failures. Default: that of the policy.")
    ] = None
    on_failure: Annotated[str | None, typer.Option(help="restart (default), end, or replace: the others run on.")] = None
    working_dir: Annotated[str | None, typer.Option(help="Working directory on the node.")] = None
    image: Annotated[str | None, typer.Option(help="Container image.")] = None
    sim_run_for: Annotated[str | None, typer.Option(metavar="TIME", help="Simulate a job that runs for this time.")] = None

    def fields_given(self) -> dict[str, Any]:
        """The fields of a job that the options set, as a job file has them; without mappings."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        priority_class, port = found.pop("class_"), found.pop("port")
        topology = topology_of(found.pop("topology"), found.pop("near"))
        found |= {"class": priority_class, "ports": [port] if port is not None else None, "topology": topology}
        return {name: value for name, value in found.items() if value not in (None, []) and name not in MAPPINGS}

    def mappings_given(self) -> dict[str, list[str]]:
        """Repeatable options that add to a field of the job: their texts by field."""
        found = {field: [*(getattr(self, option) or [])] for option, field in MAPPINGS.items()}
        if self.port is not None:
            found["env"].append(f"{PORT_VARIABLE}={self.port}")
        return {field: texts for field, texts in found.items() if texts}


MAPPINGS = {"env": "env", "secret": "secrets", "label": "labels", "node_label": "node_labels"}


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How jobs are submitted."""

    array: Annotated[
        str | None,
        typer.Option(
            metavar="N|LIST[%MOST]",
            help="Submit N jobs NAME-0 …, or those of a list as in 1,3,7-9, each with its index in BAILIFF_ARRAY_INDEX; "
            "0-99%8: at most 8 at a time.",
        ),
    ] = None
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="Use class interactive, and attach: to its terminal from a terminal, else to its output."
        ),
    ] = False
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the job; the exit code is its outcome.")] = False
    follow: Annotated[bool, typer.Option("--follow", help="As --wait, and print its events.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the request and send nothing.")] = False
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Timeout for admission's response.")] = ANSWER_WITHIN


def topology_of(required: str | None, preferred: str | None) -> dict[str, str] | None:
    """The topology of a job, from NAME:LEVEL each. Raises `ClientError`."""
    found: dict[str, str] = {}
    for option, kind, text in (("topology", "required", required), ("near", "preferred", preferred)):
        if text is None:
            continue
        name, colon, level = text.partition(":")
        if not (colon and name and level):
            raise UsageError(f'--{option}: expected NAME:LEVEL, as in racks:rack, found "{text}"')
        if found.setdefault("topology", name) != name:
            raise UsageError(f"--near: expected a level of {found['topology']}, as in --topology, found {text}")
        found[kind] = level
    return found or None
