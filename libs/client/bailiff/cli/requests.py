"""Commands that send one request and say that it was accepted: each follows from the declaration of its request."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

import typer
from pydantic import ValidationError

from bailiff.client.answers import ANSWER_WITHIN, advice_on, job_in, require_accepted
from bailiff.client.errors import ExitCode, UsageError
from bailiff_bus.validation_errors import describe_errors
from bailiff_core.records import (  # noqa: F401 - they register in `RECORDS`
    budget_requests,
    calendar_requests,
    job_requests,
    node_requests,
    pool_requests,
)
from bailiff_core.records.pool_requests import RevokeKey
from bailiff_core.records.request import RECORDS, RequestBody

from .policy_confirmation import confirm
from .session import SHARED, Output, Session, command

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from bailiff.client.client import Client, Outcome
    from bailiff_core.model.state import PoolState

ALIASES = {"cancel": "delete"}
OPTIONS = {"min_tasks": "--min"}  # those that are not called as their field
RevokeAnyway = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask if it is your own last key.")]
DROPS_RESERVATION = ("cancel", "pause", "evict")
OF_SERVICES = {"vouched_by", "keep_failed_starts", "hold"}
"""Fields that services set, and people do not."""
MANY_JOBS = {"job", "reason", "grace"}
"""Where a request has no other fields, its command takes several jobs."""
DURATIONS = {"grace"}
"""Fields that people write with a unit."""


def request_command(body: type[RequestBody]) -> None:
    """Add the command `VERB`. Required fields but the reason are arguments, and nodes; the others are options."""
    fields = {name: field for name, field in body.model_fields.items() if name not in OF_SERVICES}
    many = fields.keys() <= MANY_JOBS

    async def run(session: Session, **given: Any) -> ExitCode:
        values = {name: given[_parameter_name(name)] for name in fields}
        try:
            bodies = [body(**values | {"job": job}) for job in values["job"]] if many else [body(**values)]
        except ValidationError as error:
            raise UsageError(describe_errors(error.errors(include_url=False))) from None
        return await (_request_each(session, bodies) if many else _request(session, bodies[0], yes=given.get("yes", False)))

    own = inspect.Parameter("session", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Session)
    parameters = sorted((_parameter(name, field, many) for name, field in fields.items()), key=_has_default)
    if body is RevokeKey:
        parameters.append(inspect.Parameter("yes", inspect.Parameter.KEYWORD_ONLY, annotation=RevokeAnyway, default=False))
    run.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
    run.__doc__ = body.__doc__
    names = "job" if "job" in fields else "node" if "node" in fields else ""
    command(body.VERB, names=names)(run)
    if body.VERB in ALIASES:
        run.__doc__ = f"Alias of {body.VERB}."
        command(ALIASES[body.VERB], names=names)(run)


def _parameter(name: str, field: FieldInfo, many: bool) -> inspect.Parameter:
    kind: Any = str | None if name in DURATIONS else _plain(field.annotation)
    default: Any = inspect.Parameter.empty if field.is_required() else field.default
    if name == "job" and many:
        option = typer.Argument(metavar="JOB...", help="The jobs' names.")
        kind = list[str]
    elif name == "node" or (field.is_required() and name != "reason"):
        option = typer.Argument(metavar=name.upper().replace("_", "-"), help=field.description)
    else:
        option = typer.Option(OPTIONS.get(name, f"--{name.replace('_', '-')}"), help=field.description)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(_parameter_name(name), keyword, annotation=Annotated[kind, option], default=default)


def _parameter_name(field: str) -> str:
    return f"{field}_" if field in SHARED else field


def _has_default(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


def _plain(kind: Any) -> Any:
    """The type without what pydantic checks in addition."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return Union[tuple(_plain(each) for each in get_args(kind))]  # noqa: UP007 - of a tuple
    return kind


async def _request(session: Session, body: RequestBody, *, yes: bool) -> ExitCode:
    async with session.client() as client:
        projection, fields = await client.projection(session.pool), body.to_data()
        pool = projection.pool
        if "job" in fields:
            await job_in(client, pool, str(fields["job"]))
        if isinstance(body, RevokeKey) and not yes:
            _confirm_revocation(session, client, projection.state, body)
        late = _too_late(projection.state, body)
        outcome = await require_accepted(client, await client.request(pool, body))
        named = {name: fields[name] for name in ("job", "node") if name in fields}
        text = (f"{fields['job']}: " if "job" in fields else "") + _outcome_text(body, outcome, f"{pool}#{outcome.seq}", late)
        session.show({**named, "pool": pool, "seq": outcome.seq}, lambda: text)
    return ExitCode.DONE


async def _request_each(session: Session, bodies: Sequence[RequestBody]) -> ExitCode:
    """Publishes these requests and prints the outcome of each."""
    worst = ExitCode.DONE
    results: list[dict[str, Any]] = []
    async with session.client() as client:
        where = await client.pool(session.pool)
        state = (await client.projection(where.name)).state
        late = {id(body): _too_late(state, body) for body in bodies}
        for body, sent in zip(bodies, await client.requests(where.name, bodies), strict=True):
            outcome = await client.outcome_of(sent, ANSWER_WITHIN)
            found = {"job": sent.job, "pool": sent.pool, "accepted": False, "seq": None}
            if outcome is None:
                found["result"] = "no response from admission yet; the request was published"
                worst = ExitCode.NO_ANSWER
            else:
                found |= {"accepted": outcome.accepted, "seq": outcome.seq}
                text = _outcome_text(body, outcome, f"{sent.pool}#{outcome.seq}", late[id(body)])
                advice = "" if outcome.accepted else advice_on(outcome, sent, state)
                found["result"] = f"{text}; {advice}" if advice else text
                worst = worst if outcome.accepted else ExitCode.REJECTED
            results.append(found)
    if session.for_people:
        for result in results:
            session.say(f"{result['job']}: {result['result']}", "" if result["accepted"] else "red")
        return worst
    session.show(results, lambda: "")
    for result in results:
        if session.output is Output.NAME and not result["accepted"]:
            session.note(f"{result['job']}: {result['result']}")
    return worst


def _confirm_revocation(session: Session, client: Client, state: PoolState, body: RevokeKey) -> None:
    """Ask before users revoke the last key of their own."""
    from bailiff.client.requester import lost_by, requester_of

    lost = lost_by(state, body, requester_of(client, state))
    if lost:
        confirm(session, body.VERB, lost, "you would lose permissions")


def _too_late(state: PoolState, body: RequestBody) -> list[str]:
    """The victims that leave although the job, whose reservation the request drops, does not need their resources."""
    from bailiff.client.preview import too_late

    job = state.jobs.get(getattr(body, "job", ""))
    return list(too_late(state, job.id)) if job is not None and job.phase == "reserved" and body.VERB in DROPS_RESERVATION else []


def _outcome_text(body: RequestBody, outcome: Outcome, record: str, late: Sequence[str]) -> str:
    """What people read about the outcome. record: as in `pool-a#12`."""
    if outcome.accepted:
        return "; ".join([body.DONE.format_map(body.to_data()), *late]) + f"  ({record})"
    if outcome.code == "already-ended":
        return f"no effect: {outcome.reason}"
    return f"rejected at {record}: {outcome.reason} ({outcome.code})"


for each in RECORDS:
    if each.DONE:
        request_command(each)
