"""Commands about the policy: show, check, diff, apply."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.friendly import read_yaml
from bailiff.policydiff import changes
from bailiff.policyfile import read_policy
from bailiff.present.policy import policy_in_force
from bailiff.problem import ExitCode
from bailiff.tables.policy import policy_block
from bailiff_bus.messages import ApplyPolicy
from bailiff_core.words import count_text

from .jobs import answered
from .session import Session, command
from .simulate import NO_POOL
from .tune import tune

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A policy in YAML.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    policy = typer.Typer(help="The policy: priority classes, who may displace whom, graces, limits.", no_args_is_help=True)
    command(policy)(show)
    command(policy, leave_out=("domain", "kafka", "actor", "key"))(check)
    command(policy)(diff)
    command(policy)(apply)
    command(policy, leave_out=NO_POOL)(tune)
    app.add_typer(policy, name="policy", rich_help_panel="Machines and pools")


async def show(session: Session) -> None:
    """The policy in force. `-o yaml > policy.yaml` gives a file to change and apply."""
    async with session.client() as client:
        found = policy_in_force((await client.view(session.domain)).pool)
        session.show(found, lambda: policy_block(found))


async def check(session: Session, file: PolicyFile) -> None:
    """Is this file a policy? Says file, line and field of what is not. Needs no Kafka."""
    policy = read_policy(file, ExitCode.FOUND_WRONG)
    classes = [entry.name for entry in policy.priority_classes]
    result: dict[str, Any] = {"ok": True, "file": str(file), "priority_classes": classes}
    session.show(result, lambda: f"{file} is a policy, with the classes {', '.join(classes)}")


async def diff(session: Session, file: PolicyFile) -> None:
    """What would this file change? Field by field, against the policy in force; nothing is sent."""
    policy = read_policy(file)
    async with session.client() as client:
        view = await client.view(session.domain)
        news = changes(view.pool.rules, policy)
        said = f"{file} would change {count_text(len(news), 'field')} of the policy in force in {view.domain}"
        result = {"pool": view.domain, "revision": view.pool.policy_revision, "changes": news}
        session.show(
            result, lambda: "\n".join([said if news else f"{file} says what is in force", *(f"  {line}" for line in news)])
        )


async def apply(
    session: Session,
    file: PolicyFile,
    enforce: Annotated[bool, typer.Option("--enforce", help="Jobs that it would not have admitted leave.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also where another policy came into force since `policy show` printed the file.")
    ] = False,
) -> None:
    """Put the policy in this file in force. By itself it evicts nobody who runs already.

    A file that `policy show -o yaml` printed says which policy it was made from; where another one is in force by now,
    it is refused, so that nobody's change is lost.
    """
    policy = read_policy(file)
    made_from = None if anyway else revision_in(file)
    async with session.client() as client:
        view = await client.view(session.domain)
        before = view.pool.rules
        body = ApplyPolicy(policy=policy, enforce=enforce, expected_revision=made_from)
        outcome = await answered(client, await client.request(view.domain, body))
        news = changes(before, policy)
        said = f"policy in force since {view.domain}#{outcome.seq}" + ("" if news else "; nothing in it is new")
        result = {"pool": view.domain, "seq": outcome.seq, "changes": news, "enforce": enforce}
        session.show(result, lambda: "\n".join([said, *(f"  {line}" for line in news)]))


def revision_in(file: Path) -> int | None:
    """The policy that the file was made from, as `policy show` prints it; None where the file is only a policy."""
    value, _ = read_yaml(file)
    seq = value.get("seq") if isinstance(value, dict) and isinstance(value.get("policy"), dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0 else None
