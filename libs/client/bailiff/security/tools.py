"""The rights as commands of Kafka's own tools, and as `KafkaUser`s for Strimzi."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from bailiff_bus.grants import Grant, Operation, Principal

Authentication = Literal["scram", "tls"]
USER = "User:{name}"  # how Kafka names a user; with certificates and no mapping rule: User:CN={name}
STRIMZI_AUTHENTICATION = {"scram": "scram-sha-512", "tls": "tls"}


def commands(
    principals: Sequence[Principal], bootstrap: str, config: str, authentication: Authentication, user: str = USER
) -> Iterator[str]:
    """Shell lines for Kafka's tools; passwords come from variables such as `ADMISSION_PASSWORD`.

    Args:
        config: Their settings file.
    """
    common = ["--bootstrap-server", bootstrap, "--command-config", config]
    for principal in principals:
        yield f"# {principal.name}: {principal.purpose}"
        if authentication == "scram":
            variable = principal.role.replace("-", "_").upper() + "_PASSWORD"
            call = shlex.join(["kafka-configs.sh", *common, "--alter", "--entity-type", "users", "--entity-name", principal.name])
            yield f'{call} --add-config "SCRAM-SHA-512=[iterations=8192,password=${variable}]"'
        for operations, grants in by_operations(principal):
            named = [part for operation in operations for part in ("--operation", operation.title)]
            resources = [part for grant in grants for part in _resource(grant)]
            allow = ["--add", "--allow-principal", user.format(name=principal.name)]
            yield shlex.join(["kafka-acls.sh", *common, *allow, *named, *resources])


def _resource(grant: Grant) -> list[str]:
    return ["--cluster"] if grant.resource == "cluster" else [f"--{grant.resource}", grant.name]


def by_operations(principal: Principal) -> list[tuple[tuple[Operation, ...], list[Grant]]]:
    """The principal's rights: resources of one type with the same operations together. A grant stands for its resource."""
    operations: dict[tuple[str, str], list[Grant]] = {}
    for grant in principal.grants():
        operations.setdefault((grant.resource, grant.name), []).append(grant)
    found: dict[tuple[str, tuple[Operation, ...]], list[Grant]] = {}
    for (resource, _), grants in operations.items():
        found.setdefault((resource, tuple(grant.operation for grant in grants)), []).append(grants[0])
    return [(together, grants) for (_, together), grants in found.items()]


def kafka_users(principals: Sequence[Principal], cluster: str, authentication: Authentication) -> list[dict[str, Any]]:
    """One `KafkaUser` for each principal.

    Args:
        cluster: The name of the `Kafka` resource.
    """
    return [
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaUser",
            "metadata": {"name": principal.name, "labels": {"strimzi.io/cluster": cluster}},
            "spec": {
                "authentication": {"type": STRIMZI_AUTHENTICATION[authentication]},
                "authorization": {
                    "type": "simple",
                    "acls": [
                        {"resource": _strimzi_resource(grant), "operations": [operation.title for operation in operations]}
                        for operations, grants in by_operations(principal)
                        for grant in grants
                    ],
                },
            },
        }
        for principal in principals
    ]


def _strimzi_resource(grant: Grant) -> dict[str, str]:
    if grant.resource == "cluster":
        return {"type": "cluster"}
    return {"type": grant.resource, "name": grant.name, "patternType": "literal"}
