"""The keys of the person who runs `make up` and of the console, and the first policy, which names them.

So the person is a verified operator from the first second, on the command line and in the console. Requests that are not signed
are accepted and act on unsigned jobs only.
"""

import getpass
import os
from pathlib import Path

import yaml

from bailiff_core.model.policy import DEFAULT_POLICY, Policy
from bailiff_log.keys import existing_or_new_key, key_id

CONSOLE = "console"


def operator_key(folder: Path) -> Path:
    """The person's private key."""
    return folder / "credentials" / "operator.key"


def console_key(folder: Path) -> Path:
    """The private key with which the console signs."""
    return folder / "credentials" / "console.key"


def user_name() -> str:
    """The name of the person, as in the console."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def make_operator(folder: Path) -> Path:
    """Make both keys (mode 0600) where there are none; returns the file with the first policy of a new pool."""
    keys = {
        key_id(existing_or_new_key(operator_key(folder))): user_name(),
        key_id(existing_or_new_key(console_key(folder))): CONSOLE,
    }
    file = folder / "policy.yaml"
    file.write_text(yaml.safe_dump(policy_of(keys).model_dump(mode="json", exclude_defaults=True), sort_keys=False))
    return file


def policy_of(keys: dict[str, str], rules: Policy = DEFAULT_POLICY) -> Policy:
    """The policy with these keys; their holder other than the console is the operator."""
    operators = [name for name in keys.values() if name != CONSOLE]
    identity = {"keys": keys, "operators": operators, "sign_ins": [CONSOLE]}
    return Policy.model_validate({**rules.model_dump(mode="json"), "identity": identity}, strict=False)
