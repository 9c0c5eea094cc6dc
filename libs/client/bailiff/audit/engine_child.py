"""Child process that replays with the engine of another release: `python -I -S engine_child.py WHEEL FOLDER…`.

It imports no code of Bailiff except the wheel; numpy and pydantic come from the folders. Stdin has records as JSON Lines,
`[headers, value, again, search]` with bytes as Latin-1. After the last record, or the first difference, it prints one line of
JSON. Connections, processes and file writes are blocked: an engine is pure.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

FORBIDDEN = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.remove", "os.rename")
WRITES = "wax+"


class OnlyTheWheel:
    """Import hook that refuses every package of Bailiff except the engine."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Raises `ImportError` for a forbidden package. Called by the import system."""
        package = name.partition(".")[0]
        if package.startswith("bailiff") and package != "bailiff_core":
            raise ImportError(f"an engine does not import {name}")


def watch(event: str, given: tuple[Any, ...]) -> None:
    """Python audit hook, which cannot be removed.

    Raises:
        PermissionError: The operation is forbidden.
    """
    writes = event == "open" and isinstance(given[1], str) and any(letter in given[1] for letter in WRITES)
    if writes or event.startswith(FORBIDDEN):
        raise PermissionError(f"an engine does not do this: {event} {given[:1]}")


def main(wheel: str, *folders: str) -> dict[str, Any]:
    """Replays the records on stdin. Returns the result."""
    sys.path[:0] = [wheel]
    sys.path += folders
    sys.meta_path.insert(0, OnlyTheWheel())
    spec = importlib.util.spec_from_file_location("replay_worker", Path(__file__).with_name("replay_worker.py"))
    assert spec is not None
    assert spec.loader is not None
    worker = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(worker)
    if not str(worker.Replay.__init__.__code__.co_filename).startswith(wheel):
        raise ImportError(f"the engine was not taken from {wheel}")
    sys.addaudithook(watch)
    again = worker.ReplayWorker()
    for line in sys.stdin:
        headers, value, decide, search = json.loads(line)
        pairs = tuple((name, text.encode("latin-1")) for name, text in headers)
        again.take(worker.Wire(pairs, value.encode("latin-1")), decide, search)
        if again.done:
            break
    found: dict[str, Any] = again.found()
    return found


if __name__ == "__main__":
    try:
        result = main(*sys.argv[1:])
    except Exception as failure:  # noqa: BLE001 - reported by the parent
        result = {"error": f"{type(failure).__name__}: {failure}"}
    print(json.dumps(result), flush=True)
