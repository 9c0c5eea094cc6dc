"""Submits jobs with the options of `bailiff submit`: one job or an array, with what is printed about them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bailiff.client.answers import require_accepted
from bailiff.client.errors import ClientError, ExitCode, UsageError

from .arrays import array_in, jobs_of
from .jobs import pairs_of
from .session import Output, Session, as_text
from .waiting import attach_when_started, attend, wait_for

if TYPE_CHECKING:
    from bailiff.client import job_parser
    from bailiff.client.client import Client
    from bailiff_core.records.job_requests import SubmitJob

    from .job_options import How, JobOptions
    from .waiting import Accepted


def with_options(document: dict[str, Any], options: JobOptions, how: How) -> frozenset[str]:
    """Adds what the options set to the fields of a job. Returns the names of those fields, except mappings."""
    from bailiff.client import job_parser

    given = options.fields_given()
    _refuse_shell_word(options.command or [])
    if how.interactive:
        defaults = {"class": "interactive", "max_failures": 0}  # an attached user sees that it failed
        given = {name: value for name, value in defaults.items() if name not in document} | given
        if _is_terminal() and not {"tty", "sim_run_for"} & {*document, *given}:
            given["tty"] = True
    document |= given
    if options.max_failures and document.get("on_failure") == "end":
        text = "--max-failures: the job ends at its first failure, as on-failure is end"
        raise UsageError(text, "remove one; with retries: --on-failure restart")
    if document.get("tty") and how.interactive and os.environ.get("TERM"):
        document["env"] = {"TERM": os.environ["TERM"], **(document.get("env") or {})}
    for field, texts in options.mappings_given().items():
        document[field] = job_parser.merged(document.get(field), pairs_of(field, texts))
    return frozenset(given)


def _refuse_shell_word(command: list[str]) -> None:
    """Raises `ClientError` for a line for a shell that is quoted as one word, as if a shell would read it."""
    if len(command) == 1 and len(command[0].split()) > 1 and not Path(command[0]).exists():
        line = command[0]
        text = f"{line!r} is one word, so a program of that whole name would be run: no shell reads it"
        raise UsageError(text, f"with a shell: -- sh -c {shlex.quote(line)}; without: -- {line.split()[0]} …, unquoted")


async def submit_document(
    session: Session, document: dict[str, Any], source: job_parser.Source, options: JobOptions, how: How, *, here: bool = False
) -> ExitCode | None:
    """Submits the job of this document, changed by the options.

    Args:
        here: It runs in this folder, unless it says another.

    Raises:
        ClientError: The options contradict each other.
    """
    from bailiff.client import job_parser
    from bailiff.client.image_runtime import with_runtime
    from bailiff.client.job_request import from_here, in_project, named

    if how.interactive and how.array is not None:
        raise UsageError("--interactive and --array are mutually exclusive")
    says_tty = "tty" in document or options.tty is not None
    source = replace(source, options=with_options(document, options, how))
    in_project(document, session.settings.project)
    if here:
        from_here(document)
    named(document)
    array = array_in(how.array) if how.array is not None else None
    if document.get("after"):
        document["after"] = await _dependencies(session, document)
    jobs = jobs_of(document, source, array) if array is not None else [job_parser.job_from(document, source)]
    if how.dry_run:
        session.out.out("---\n".join(map(request_text, jobs)), highlight=False, end="")
        return None
    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        jobs = jobs if "runtime" in document else with_runtime(jobs, state, may_lack_terminal=not says_tty)
        accepted = await _ask(session, client, jobs, how.timeout)
        await _warn(session, client, accepted[0][0].pool, jobs[0])
        if how.interactive:
            (sent, seq) = accepted[0]
            if jobs[0].spec.tty and _is_terminal():
                return await attach_when_started(session, client, sent, seq, options.port)
            return await attend(session, client, sent, seq, options.port)
        if how.wait or how.follow:
            return await wait_for(session, client, accepted, follow=how.follow)
        await _tell(session, client, accepted, is_array=how.array is not None)
    return ExitCode.DONE


async def _dependencies(session: Session, document: Mapping[str, Any]) -> object:
    from bailiff.client.dependencies import named_dependencies
    from bailiff.client.requester import requester_of

    async with session.client() as client:
        state = (await client.projection(session.pool)).state
        user = document.get("user") or requester_of(client, state).actor
        return named_dependencies(state, document["after"], user, document["name"])


async def _ask(session: Session, client: Client, jobs: Sequence[SubmitJob], timeout: float) -> Accepted:
    """Submits the jobs in order. Raises `ClientError` for rejected ones, after all have an outcome."""
    pool = await client.pool(session.pool)
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
    """Prints warnings about an accepted job, and what it would use of budgets that have little left."""
    from bailiff_core.explain.budgets import would_use
    from bailiff_core.explain.claims import claims_of
    from bailiff_core.model.snapshots import too_slow_to_save
    from bailiff_core.placement.shared_checkpoints import unshared_checkpoints

    state = (await client.projection(pool)).state
    problem = unshared_checkpoints(state, job.demand) if job.spec.runtime != "simulated" else None
    problems = [problem] if problem is not None else []
    known = state.jobs.get(job.demand.job)
    refused = [each for each in claims_of(state, known) if each.claimed != each.granted] if known is not None else []
    problems += [f"{each.field} {each.claimed}: the policy grants this job {each.granted}" for each in refused]
    slow = too_slow_to_save(state, known) if known is not None else ""
    problems += [slow] if slow else []
    for each in would_use(state, known, short=True) if known is not None else ():
        session.note(each, "dim")
    for each in problems:
        session.note(f"warning: {each}", "yellow")


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


def _is_terminal() -> bool:
    """Whether a person types and reads here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def request_text(job: SubmitJob) -> str:
    """The request as it would be sent, as YAML."""
    return as_text({"type": job.TYPE, "data": job.to_data()}, Output.YAML)
