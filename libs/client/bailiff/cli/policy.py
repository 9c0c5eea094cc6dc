"""Commands about the policy: show, check, apply."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff import present, tables
from bailiff.policyfile import policy_document, read_policy
from bailiff_bus.messages import ApplyPolicy
from bailiff_core.model.policy import Policy

from .jobs import answered
from .session import Session, command

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A policy in YAML.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the root."""
    policy = typer.Typer(help="The policy: priority classes, who may displace whom, graces, limits.", no_args_is_help=True)
    command(policy)(show)
    command(policy, leave_out=("domain", "kafka", "actor", "key"))(check)
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


async def apply(session: Session, file: PolicyFile) -> None:
    """Put the policy in this file in force."""
    policy = read_policy(file)
    async with session.client() as client:
        view = await client.view(session.domain)
        before = view.pool.rules
        outcome = await answered(client, await client.request(view.domain, ApplyPolicy(policy=policy)))
        news = changes(before, policy)
        said = f"policy in force since {view.domain}#{outcome.seq}" + ("" if news else "; nothing in it is new")
        result = {"pool": view.domain, "seq": outcome.seq, "changes": news}
        session.show(result, lambda: "\n".join([said, *(f"  {line}" for line in news)]))


def changes(before: Policy, after: Policy) -> list[str]:
    """What the new policy says differently, one line each."""
    found: list[str] = []
    _compare("", _by_name(before), _by_name(after), found)
    return found


def _by_name(policy: Policy) -> dict[str, Any]:
    data = policy_document(policy)
    data["priority_classes"] = {entry["name"]: entry for entry in data["priority_classes"]}
    return data


def _compare(path: str, before: Any, after: Any, found: list[str]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            inner = f"{path}.{key}" if path else key
            if key not in after:
                found.append(f"{inner}: gone")
            elif key not in before:
                found.append(f"{inner}: new")
            else:
                _compare(inner, before[key], after[key], found)
    elif before != after:
        found.append(f"{path}: {before} → {after}")
