"""Commands about the policy: show, check, diff, apply."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import present, tables
from bailiff.policydiff import changes
from bailiff.policyfile import read_policy
from bailiff_bus.messages import ApplyPolicy

from .jobs import answered
from .session import Session, command

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A policy in YAML.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    policy = typer.Typer(help="The policy: priority classes, who may displace whom, graces, limits.", no_args_is_help=True)
    command(policy)(show)
    command(policy, leave_out=("domain", "kafka", "actor", "key"))(check)
    command(policy)(diff)
    command(policy)(apply)
    app.add_typer(policy, name="policy", rich_help_panel="Machines and pools")


async def show(session: Session) -> None:
    """The policy in force. `-o yaml > policy.yaml` gives a file to change and apply."""
    async with session.client() as client:
        found = present.policy((await client.view(session.domain)).pool)
        session.show(found, lambda: tables.policy(found))


async def check(session: Session, file: PolicyFile) -> None:
    """Is this file a policy? Says file, line and field of what is not. Needs no Kafka."""
    policy = read_policy(file)
    classes = [entry.name for entry in policy.priority_classes]
    result: dict[str, Any] = {"ok": True, "file": str(file), "priority_classes": classes}
    session.show(result, lambda: f"{file} is a policy, with the classes {', '.join(classes)}")


async def diff(session: Session, file: PolicyFile) -> None:
    """What would this file change? Field by field, against the policy in force; nothing is sent."""
    policy = read_policy(file)
    async with session.client() as client:
        view = await client.view(session.domain)
        news = changes(view.pool.rules, policy)
        said = f"{file} would change {len(news)} field{'' if len(news) == 1 else 's'} of the policy in force in {view.domain}"
        result = {"pool": view.domain, "revision": view.pool.policy_revision, "changes": news}
        session.show(
            result, lambda: "\n".join([said if news else f"{file} says what is in force", *(f"  {line}" for line in news)])
        )


async def apply(
    session: Session,
    file: PolicyFile,
    enforce: Annotated[bool, typer.Option("--enforce", help="Jobs that it would not have admitted leave.")] = False,
) -> None:
    """Put the policy in this file in force. By itself it evicts nobody who runs already."""
    policy = read_policy(file)
    async with session.client() as client:
        view = await client.view(session.domain)
        before = view.pool.rules
        outcome = await answered(client, await client.request(view.domain, ApplyPolicy(policy=policy, enforce=enforce)))
        news = changes(before, policy)
        said = f"policy in force since {view.domain}#{outcome.seq}" + ("" if news else "; nothing in it is new")
        result = {"pool": view.domain, "seq": outcome.seq, "changes": news, "enforce": enforce}
        session.show(result, lambda: "\n".join([said, *(f"  {line}" for line in news)]))
