"""`bailiff security`: users, access lists and certificates of Kafka, from one table of rights."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bailiff.client.errors import ExitCode, UsageError
from bailiff_bus.grants import PRINCIPALS

from .session import OFFLINE, Session, command

Role = StrEnum("Role", {role.replace("-", "_"): role for role in PRINCIPALS})  # type: ignore[misc]


class Authentication(StrEnum):
    """How users authenticate."""

    SCRAM = "scram"
    TLS = "tls"


Roles = Annotated[list[Role] | None, typer.Argument(metavar="[ROLE]...", help="Roles, such as admission. Default: all.")]
How = Annotated[Authentication, typer.Option(help="Passwords (SCRAM) or client certificates.")]
User = Annotated[str, typer.Option("--user", help="How Kafka names the user of a role; without a mapping rule: User:CN={name}.")]


def _chosen(roles: list[Role] | None) -> list[Any]:
    return [PRINCIPALS[role] for role in roles or PRINCIPALS]


@command("security rights", leave_out=OFFLINE)
def rights(session: Session, roles: Roles = None) -> None:
    """List the rights that each user of Kafka needs. No other right is needed."""
    from bailiff.tables.security import rights_table

    chosen = _chosen(roles)
    data = [
        {
            "user": principal.name,
            "role": principal.role,
            "purpose": principal.purpose,
            "rights": list(map(str, principal.grants())),
        }
        for principal in chosen
    ]
    session.show(data, lambda: rights_table(chosen))


@command("security commands", leave_out=("pool", "actor", "key", "output"))
def commands(
    session: Session,
    roles: Roles = None,
    authentication: How = Authentication.SCRAM,
    user: User = "User:{name}",
    command_config: Annotated[str, typer.Option(metavar="FILE", help="Settings file of Kafka's tools.")] = "admin.properties",
) -> None:
    """Print the commands of Kafka's own tools that create users and access lists. Nothing is changed."""
    from bailiff.security import tools

    bootstrap = session.settings.kafka.bootstrap
    for line in tools.commands(_chosen(roles), bootstrap, command_config, authentication.value, _checked(user)):
        typer.echo(line)


@command("security strimzi", leave_out=(*OFFLINE, "output"))
def strimzi(
    session: Session,  # noqa: ARG001 - every command has one
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Name of the Kafka resource.")],
    roles: Roles = None,
    authentication: How = Authentication.SCRAM,
) -> None:
    """Print a `KafkaUser` for each role, for Strimzi 0.49 or later. Nothing is changed."""
    import yaml

    from bailiff.security import tools

    typer.echo(yaml.safe_dump_all(tools.kafka_users(_chosen(roles), cluster, authentication.value), sort_keys=False), nl=False)


@command("security apply", leave_out=("pool", "actor", "key"))
async def apply(
    session: Session,
    roles: Roles = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Create SCRAM users, too; each one's settings are written to DIR/ROLE.env.")
    ] = None,
    user: User = "User:{name}",
    prune: Annotated[bool, typer.Option("--prune", help="Delete rules of these users that are not needed.")] = False,
) -> ExitCode:
    """Create users and access lists in Kafka, connected as a user that may alter the cluster. Idempotent.

    A file in the folder keeps its password. Rules that are not needed are listed; the exit code is 1 while there are any.
    """
    from bailiff.security.apply import apply as apply_rights
    from bailiff.tables.security import applied_table

    applied = await apply_rights(session.settings.kafka, _chosen(roles), folder=folder, user=_checked(user), prune=prune)
    session.show([asdict(each) for each in applied], lambda: applied_table(applied, pruned=prune))
    return ExitCode.FOUND_WRONG if any(each.extra for each in applied) and not prune else ExitCode.DONE


@command("security certificates", leave_out=OFFLINE)
def certificates(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the authority and of all certificates.")],
    broker: Annotated[
        list[str], typer.Option(metavar="HOST", help="Name or address of a broker, in its certificate; repeatable.")
    ],
    renew: Annotated[bool, typer.Option("--renew", help="Write new certificates for all; the authority stays.")] = False,
) -> None:
    """Create a certificate authority, and certificates for brokers and all roles, where there is no other authority.

    Valid for a year. Services load renewed files at the next connection. Keep ca.key away from the machines that run services.
    """
    from bailiff.security.certificates import issue

    try:
        written = issue(folder, broker, renew=renew)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    session.show(written, lambda: "\n".join(f"{folder}/{name}" for name in written) if written else "All certificates exist.")


@command("security kubernetes", leave_out=(*OFFLINE, "output"))
def kubernetes(
    session: Session,  # noqa: ARG001 - every command has one
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of all keys; what is in it is kept.")],
    release: Annotated[str, typer.Option(metavar="NAME", help="Name of the Helm release.")] = "bailiff",
    replicas: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=NUMBER", help="Replicas of a service; default: 1. Repeatable.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The policy that a new pool begins with. Default: the shipped classes.")
    ] = None,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Namespace of the release.")] = "bailiff",
    agents_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the node agents, which need the public root key.")
    ] = "bailiff-agents",
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="Read and write the Secrets of this pod's namespace instead of printing them.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="With --in-cluster: restart the services whose certificates were renewed.")
    ] = False,
) -> None:
    """Make keys, certificates and tokens for an installation with Helm, and print the Secrets for `kubectl apply -f -`.

    The root key is in DIR/root-key, and in the Secret RELEASE-root-key with --in-cluster only.
    """
    import time

    import yaml

    from bailiff.security import kubernetes_keys as keys
    from bailiff.security.kubernetes_secrets import KubernetesError, PodApi
    from bailiff_core.model.policy import DEFAULT_POLICY
    from bailiff_log.keys import KeyFileError

    try:
        cluster, before = PodApi() if in_cluster else None, dict[str, dict[str, str]]()
        if cluster is not None:
            for part, name in keys.secret_names(release).items():
                before[name] = cluster.secret(name)
                keys.restore(folder, release, part, before[name])
        shipped = yaml.safe_dump(DEFAULT_POLICY.model_dump(mode="json", exclude_defaults=True), sort_keys=False)
        first_policy = policy.read_text(encoding="utf-8") if policy is not None else shipped
        keys.complete(folder, release, _counts(replicas or []), first_policy, time.time_ns() // 1000)
        made = [
            *keys.secrets(folder, release, cluster.namespace if cluster else namespace),
            keys.public_root_key(folder, release, agents_namespace),
        ]
        if cluster is not None:
            for item in made:
                cluster.apply(item)
            for service, digest in keys.renewed(before, made, release).items() if restart else ():
                cluster.restart(service, digest)
    except (OSError, KeyFileError, KubernetesError) as error:
        raise UsageError(str(error)) from None
    if in_cluster:
        typer.echo("\n".join(each["metadata"]["name"] for each in made))
        return
    root = keys.secret_name(release, keys.ROOT)
    typer.echo(yaml.safe_dump_all((each for each in made if each["metadata"]["name"] != root), sort_keys=False), nl=False)


def _counts(pairs: list[str]) -> dict[str, int]:
    """Replicas by role. Raises `ClientError`."""
    counts = {}
    for pair in pairs:
        role, _, number = pair.partition("=")
        if not (role and number.isdecimal()):
            raise UsageError(f"{pair}: expected ROLE=NUMBER")
        counts[role] = int(number)
    return counts


def _checked(user: str) -> str:
    """The template. Raises `ClientError` if it has no place for the name."""
    if "{name}" not in user or ":" not in user:
        raise UsageError(f"--user {user}: expected a text such as User:{{name}}")
    return user
