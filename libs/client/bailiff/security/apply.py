"""Brings users and access lists in Kafka to the table of rights."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bailiff.client.errors import UsageError
from bailiff_bus.grants import Principal
from bailiff_bus.kafka.access import AccessAdmin, AccessRule, access_admin
from bailiff_bus.kafka_settings import KafkaSettings
from bailiff_log.file_writing import write

from .tools import USER

MECHANISM = "SCRAM-SHA-512"
PASSWORD = "BAILIFF_KAFKA__PASSWORD"  # noqa: S105 - the variable's name


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one principal.

    Attributes:
        extra: Rules that the table does not have; removed only with `prune`.
    """

    principal: str
    created: list[str]
    extra: list[str]
    settings: str


async def apply(
    settings: KafkaSettings, principals: Sequence[Principal], *, folder: Path | None, user: str = USER, prune: bool = False
) -> list[Applied]:
    """Create missing rules, and with `prune` delete other ones of these principals.

    Idempotent. Raises `BusUnavailable`, `ClientError`.

    Args:
        settings: Of a user that may alter the cluster.
        folder: SCRAM users are created, with the settings of each in `ROLE.env`; an existing file keeps its password.
    """
    async with access_admin(settings) as admin:
        return [await _apply_one(admin, principal, folder, user, prune=prune) for principal in principals]


async def _apply_one(admin: AccessAdmin, principal: Principal, folder: Path | None, user: str, *, prune: bool) -> Applied:
    file = None if folder is None else folder / f"{principal.role}.env"
    if file is not None:
        await admin.set_password(principal.name, _password(file, principal), MECHANISM)
    name = user.format(name=principal.name)
    wanted, found = {AccessRule(name, grant) for grant in principal.grants()}, await admin.rules(name)
    if wanted - found:
        await admin.create(sorted(wanted - found))
    if prune and found - wanted:
        await admin.delete(sorted(found - wanted))
    created, extra = ([str(rule.grant) for rule in sorted(rules)] for rules in (wanted - found, found - wanted))
    return Applied(name, created, extra, str(file or ""))


def _password(file: Path, principal: Principal) -> str:
    """The password in the file; a new one is written with the other settings, readable by its owner only."""
    try:
        if file.exists():
            return read_env(file)[PASSWORD]
        password = secrets.token_urlsafe(24)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(
            file,
            f"BAILIFF_KAFKA__SECURITY_PROTOCOL=SASL_SSL\nBAILIFF_KAFKA__SASL_MECHANISM={MECHANISM}\n"
            f"BAILIFF_KAFKA__USERNAME={principal.name}\n{PASSWORD}={password}\n",
            mode=0o600,
        )
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except KeyError:
        raise UsageError(f"{file} has no {PASSWORD}", "remove the file for a new password") from None
    return password


def read_env(file: Path) -> dict[str, str]:
    """Variables of a file with `NAME=value` lines."""
    pairs = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines() if "=" in line)
    return {name: value for name, _, value in pairs}
