"""Submits jobs with the options of `bailiff submit`: one job or an array, with what is printed about them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bailiff.client.answers import require_accepted
from bailiff.client.errors import ClientError, ExitCode

from .jobs import pairs_of
from .session import Output, Session, as_text
from .waiting import attach_when_started, attend, wait_for

if TYPE_CHECKING:
    from bailiff.client import job_parser
    from bailiff.client.client import Client
    from bailiff_bus.messages import SubmitJob

    from .waiting import Accepted

LARGEST_ARRAY = 10_000
ARRAY_INDEX, ARRAY_SIZE, PORT = "BAILIFF_ARRAY_INDEX", "BAILIFF_ARRAY_SIZE", "BAILIFF_PORT"
FIELDS = (
    "name", "user", "project", "gpus", "fraction", "gpu_memory", "gpu_devices", "mig", "cpu", "memory", "tasks", "min_tasks",
    "after", "gpu_model", "pack", "placement", "run_time_limit", "grace", "kill_after", "preemptible", "on_eviction", "on_term",
    "max_failures", "on_failure", "working_dir", "image", "tty", "sim_run_for", "command",
)  # fmt: skip
"""Options that are fields of a job under the same name."""
MAPPINGS = {"env": "env", "secret": "secrets", "label": "labels", "node_label": "node_labels"}
"""Repeatable options that add to a field."""


@dataclass(frozen=True, slots=True)
class How:
    """How jobs are submitted. array: as so many jobs. timeout: seconds for admission's answer to each."""

    array: int | None
    interactive: bool
    port: int | None
    wait: bool
    follow: bool
    dry_run: bool
    timeout: float


def fields_given(options: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job that the options set. document: the job without them."""
    given = {name: options[name] for name in FIELDS if options[name] not in (None, [])}
    if options["class_"] is not None:
        given["class"] = options["class_"]
    if options["interactive"]:
        if "class" not in document:
            given.setdefault("class", "interactive")
        if "max_failures" not in document:
            given.setdefault("max_failures", 0)  # an attached user sees that it failed
        if _is_terminal() and not {"image", "tty", "sim_run_for"} & {*document, *given}:
            given["tty"] = True
    topology = _topology(options["topology"], options["near"])
    return given | ({"topology": topology} if topology is not None else {})


def with_mappings(document: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Adds environment variables, secrets and labels that the options set."""
    from bailiff.client import job_parser

    port = [f"{PORT}={options['port']}"] if options["port"] is not None else []
    if document.get("tty") and options["interactive"] and os.environ.get("TERM"):
        document["env"] = {"TERM": os.environ["TERM"], **(document.get("env") or {})}
    for option, field in MAPPINGS.items():
        texts = [*(options[option] or []), *(port if option == "env" else [])]
        if texts:
            document[field] = job_parser.merged(document.get(field), pairs_of(field, texts))


def how_of(options: Mapping[str, Any]) -> How:
    """How the options say that jobs are submitted. Raises `ClientError` if they contradict each other."""
    if options["interactive"] and options["array"] is not None:
        raise ClientError(ExitCode.USAGE, "--interactive and --array are mutually exclusive")
    return How(**{name: options[name] for name in How.__slots__})


async def submit_document(
    session: Session, document: dict[str, Any], source: job_parser.Source, given: Mapping[str, Any], how: How
) -> ExitCode | None:
    """Submits the job of this document. given: its fields that were set by options."""
    from bailiff.client import job_parser
    from bailiff.client.job_request import in_project, named

    in_project(document, session.settings.project)
    source = replace(source, options=frozenset(given))
    named(document)
    jobs = array_of(document, source, how.array) if how.array is not None else [job_parser.job_from(document, source)]
    if how.dry_run:
        session.out.out("---\n".join(map(request_text, jobs)), highlight=False, end="")
        return None
    async with session.client() as client:
        accepted = await _ask(session, client, jobs, how.timeout, names_runtime="runtime" in document)
        await _warn(session, client, accepted[0][0].pool, jobs[0])
        if how.interactive:
            (sent, seq) = accepted[0]
            if jobs[0].spec.tty and _is_terminal():
                return await attach_when_started(session, client, sent, seq, how.port)
            return await attend(session, client, sent, seq, how.port)
        if how.wait or how.follow:
            return await wait_for(session, client, accepted, follow=how.follow)
        await _tell(session, client, accepted, is_array=how.array is not None)
    return ExitCode.DONE


def array_of(document: Mapping[str, Any], source: job_parser.Source, size: int) -> list[SubmitJob]:
    """`size` jobs that differ in name and array index."""
    from bailiff.client import job_parser

    if not 1 <= size <= LARGEST_ARRAY:
        raise ClientError(ExitCode.USAGE, f"--array: expected 1 to {LARGEST_ARRAY} jobs, found {size}")
    jobs = []
    for index in range(size):
        env = job_parser.merged(document.get("env"), {ARRAY_INDEX: str(index), ARRAY_SIZE: str(size)})
        jobs.append(job_parser.job_from({**document, "name": f"{document['name']}-{index}", "env": env}, source))
    return jobs


async def _ask(session: Session, client: Client, jobs: Sequence[SubmitJob], timeout: float, *, names_runtime: bool) -> Accepted:
    """Submits the jobs in order. Raises `ClientError` for rejected ones, after all have an outcome.

    names_runtime: the job says itself which runtime runs its image.
    """
    from bailiff.client.image_runtime import with_runtime

    pool = await client.pool(session.pool)
    projection = await client.projection(pool.name)
    jobs = jobs if names_runtime else with_runtime(jobs, projection.state)
    accepted, refused = [], list[ClientError]()
    for sent in await client.requests(pool.name, jobs):
        try:
            accepted.append((sent, (await require_accepted(client, sent, timeout)).seq))
        except ClientError as problem:
            refused.append(problem)
            if problem.exit_code is ExitCode.NO_ANSWER:
                break
    if refused:
        others = f"{len(accepted)} of {len(jobs)} jobs were accepted" if len(jobs) > 1 else ""
        texts = [*(problem.text for problem in refused[:5]), *([f"and {len(refused) - 5} more"] if len(refused) > 5 else [])]
        raise ClientError(refused[-1].exit_code, "\n".join([*texts, *([others] if others else [])]), refused[-1].advice)
    return accepted


async def _warn(session: Session, client: Client, pool: str, job: SubmitJob) -> None:
    """Prints a warning about an accepted job."""
    from bailiff_core.placement.shared_checkpoints import unshared_checkpoints

    problem = unshared_checkpoints((await client.projection(pool)).state, job.demand) if job.spec.runtime != "simulated" else None
    if problem is not None:
        session.err.print(f"warning: {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)


async def _tell(session: Session, client: Client, accepted: Accepted, *, is_array: bool) -> None:
    from bailiff.render.serializers.jobs import job_state

    results, text_lines = [], []
    state = (await client.projection(accepted[0][0].pool)).state
    ahead = {name: at for at, name in enumerate(name for name in state.queue if name not in state.active)}
    for sent, seq in accepted:
        found = state.jobs.get(sent.job)
        shown = job_state(found) if found is not None else "accepted"
        results.append({"job": sent.job, "pool": sent.pool, "seq": seq, "request_id": sent.id, "state": shown})
        waits = f", {ahead[sent.job]} ahead" if sent.job in ahead else ""
        text_lines.append(f"{sent.job} accepted as {sent.pool}#{seq}, {shown}{waits}")
    session.show(results if is_array else results[0], lambda: "\n".join(text_lines))


# --- parsing options


def _is_terminal() -> bool:
    """Whether a person types and reads here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def request_text(job: SubmitJob) -> str:
    """The request as it would be sent, as YAML."""
    return as_text({"type": job.TYPE, "data": job.to_data()}, Output.YAML)


def _topology(required: str | None, preferred: str | None) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for option, kind, text in (("topology", "required", required), ("near", "preferred", preferred)):
        if text is None:
            continue
        name, colon, level = text.partition(":")
        if not (colon and name and level):
            raise ClientError(ExitCode.USAGE, f'--{option}: expected NAME:LEVEL, as in racks:rack, found "{text}"')
        if found.setdefault("topology", name) != name:
            raise ClientError(ExitCode.USAGE, f"--near: expected a level of {found['topology']}, as in --topology, found {text}")
        found[kind] = level
    return found or None
