"""The keys, certificates and tokens of an installation on Kubernetes, in one folder, and as the Secrets that its pods mount.

The folder is made and completed by `complete`: what is there is kept, certificates are renewed when half of their time is over.
`secrets` and `restore` are each other's inverse, so that a Job can continue from the Secrets in the cluster.
"""

import base64
import hashlib
import secrets as randomness
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from bailiff_core.model.certificate import Role
from bailiff_log.credentials import CERTIFICATE, ENCRYPTION_KEY, PRIVATE_KEY, ROOT_KEY, issued_credentials
from bailiff_log.file_writing import write
from bailiff_log.keys import existing_or_new_key, key_id, read_private_key

CERTIFIED: tuple[Role, ...] = ("admission", "victim-selection", "eviction-executor", "auditor", "rollup", "console")
OPERATOR, CONSOLE, BRIDGE = "operator", "console", "kubernetes-bridge"
ROOT = "root-key"
FILES = (PRIVATE_KEY, ENCRYPTION_KEY, CERTIFICATE)
PART_OF = {"app.kubernetes.io/part-of": "bailiff", "app.kubernetes.io/component": "keys"}


def complete(folder: Path, release: str, replicas: Mapping[str, int], policy: str, now: int) -> None:
    """Make what is missing in the folder. Raises `KeyFileError`.

    Args:
        replicas: By role, one where it is not named.
        policy: The first one, as YAML.
        now: µs.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = folder / ROOT / "root.key"
    for role in CERTIFIED:
        for ordinal in range(replicas.get(role, 1)):
            name = f"{release}-{role}-{ordinal}"
            issued_credentials(folder / role / name, root, role=role, name=name, now=now)
    write(folder / "root.pub", f"{key_id(read_private_key(root))}\n")
    existing_or_new_key(folder / "admission" / "specs.key")
    existing_or_new_key(folder / "auditor" / "seal.key")
    holders = {holder: key_id(existing_or_new_key(folder / holder / f"{holder}.key")) for holder in (OPERATOR, CONSOLE, BRIDGE)}
    _token(folder / "api-token" / "token")
    _token(folder / "console" / "token")
    first = folder / "admission" / "policy.yaml"
    if not first.exists():  # a new pool begins with it; later ones come with `bailiff policy apply`
        write(first, _first_policy(policy, holders))


def _first_policy(text: str, holders: Mapping[str, str]) -> str:
    """The policy with the keys of operator, console and bridge, unless it has sections `identity` and `kubernetes` of its own."""
    policy: dict[str, Any] = yaml.safe_load(text) or {}
    keys = {key: holder for holder, key in holders.items()}
    policy.setdefault("identity", {"keys": keys, "operators": [OPERATOR], "sign_ins": [CONSOLE]})
    policy.setdefault("kubernetes", {"bridges": [BRIDGE]})
    return yaml.safe_dump(policy, sort_keys=False)


def _token(path: Path) -> None:
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path, randomness.token_urlsafe(32), mode=0o600)


def secret_name(release: str, part: str) -> str:
    """The name of the Secret with the folder's part of this name."""
    return f"{release}-{part}" if part in {ROOT, "api-token"} else f"{release}-{part}-keys"


def secret_names(release: str) -> dict[str, str]:
    """The names of all Secrets, by part of the folder, in the order of writing: what others are made from comes first."""
    parts = (ROOT, OPERATOR, BRIDGE, "api-token", *reversed(CERTIFIED))  # admission's has the policy, which names the keys
    return {part: secret_name(release, part) for part in parts}


def secrets(folder: Path, release: str, namespace: str) -> Iterable[dict[str, Any]]:
    """The folder as Secrets. Files of a replica are keys such as `bailiff-admission-0.key`."""
    root_public = (folder / "root.pub").read_bytes()
    for part, name in secret_names(release).items():
        data = {path.name: path.read_bytes() for path in sorted((folder / part).iterdir()) if path.is_file()}
        for replica in sorted(path for path in (folder / part).iterdir() if path.is_dir()):
            data |= {f"{replica.name}.{file}": (replica / file).read_bytes() for file in FILES}
        if part in CERTIFIED:
            data[ROOT_KEY] = root_public
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": PART_OF},
            "type": "Opaque",
            "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
        }


def renewed(before: Mapping[str, Mapping[str, str]], after: Iterable[Mapping[str, Any]], release: str) -> dict[str, str]:
    """Services whose certificates have changed, with a digest of their Secret.

    Args:
        before: The data of each Secret, by name.
    """
    parts = {secret_name(release, part): part for part in CERTIFIED}
    found = {}
    for item in after:
        part, name = parts.get(item["metadata"]["name"]), item["metadata"]["name"]
        if part is not None and before.get(name) and dict(before[name]) != item["data"]:
            found[f"{release}-{part}"] = hashlib.sha256(yaml.safe_dump(item["data"]).encode()).hexdigest()[:16]
    return found


def public_root_key(folder: Path, release: str, namespace: str) -> dict[str, Any]:
    """The public root key for the node agents, which make their own keys, as a ConfigMap in their namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{release}-root-public-key", "namespace": namespace, "labels": PART_OF},
        "data": {ROOT_KEY: (folder / "root.pub").read_text(encoding="ascii")},
    }


def restore(folder: Path, release: str, part: str, data: Mapping[str, str]) -> None:
    """Write one Secret's data back into the folder; nothing for no data."""
    for key, text in data.items():
        replica, _, file = key.partition(".")
        if part in CERTIFIED and replica.startswith(f"{release}-{part}-") and file in FILES:
            path = folder / part / replica / file
        elif part in CERTIFIED and key == ROOT_KEY:
            continue
        else:
            path = folder / part / key
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path, base64.b64decode(text, validate=True), mode=0o600)
    for certified in {path.parent for path in (folder / part).glob(f"*/{CERTIFICATE}")}:
        write(certified / ROOT_KEY, _root_of(data))


def _root_of(data: Mapping[str, str]) -> str:
    return base64.b64decode(data[ROOT_KEY]).decode("ascii")
