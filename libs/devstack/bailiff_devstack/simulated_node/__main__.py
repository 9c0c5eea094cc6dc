"""`python -m bailiff_devstack.simulated_node FILE DEVICE FAULT`: inject a fault into a simulated device.

FILE: `faults.json` in the node's folder.
FAULT: `leak=BYTES`, `hang`, `dead`, `xid=NUMBER`, `use=BYTES`, `busy=PERCENT`, or `heal`. With `gpus` as DEVICE, FAULT is a
setting such as `6xH100-80GB:3g.40gb`: the node has these devices from now on, as when an administrator partitions its cards.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bailiff_node_agent.disk.storage import write_durably

from .spec import parse

USAGE = (
    "usage: FILE DEVICE leak=BYTES|hang|dead|xid=NUMBER|use=BYTES|busy=PERCENT|heal, such as .../faults.json 0 leak=1073741824"
)
NUMBERED = {"leak": "leak_bytes", "xid": "xid", "use": "use_bytes", "busy": "busy_percent"}


def fault(text: str) -> dict[str, Any]:
    """The fault in its JSON form. Raises `ValueError`."""
    word, _, number = text.partition("=")
    if text == "heal":
        return {}
    if text in ("hang", "dead"):
        return {text: True}
    if word in NUMBERED and number.isdecimal():
        return {NUMBERED[word]: int(number)}
    raise ValueError(f"{text!r} is not a fault; {USAGE}")


def main(arguments: list[str]) -> int:
    """Change one device in the file."""
    try:
        file, device, word = arguments
        content = json.loads(Path(file).read_bytes()) if Path(file).exists() else {}
        if device == "gpus":
            parse(word, "node")
            content["gpus"] = word
        else:
            content[str(int(device))] = fault(word)
        write_durably(Path(file), json.dumps(content).encode())
    except ValueError as problem:
        sys.stderr.write(f"{problem if len(arguments) == 3 else USAGE}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
