"""What this node can save and restore: tried once, on a program that does nothing, when the agent starts."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bailiff_node_agent.runtime.criu_requests import PROBE, Criu, reason, restore_input
from bailiff_node_agent.runtime.job_files import remove_tree
from bailiff_node_agent.runtime.supervisor.criu import DUMP_LOG, RESTORE_LOG

from .bad_image import BadImage
from .images import make_image, sealed, verified

HELD_BYTES = 128 << 20
WITHIN_S = 120.0
_probing, _offers = threading.Lock(), dict[Criu, "Offer"]()


@dataclass(frozen=True)
class Offer:
    """What this node offers. why_not: empty where saving and restoring were tried and work.

    bytes_per_s: how fast memory is saved, checked and brought to disk; 0: unknown. cpu: digest of the CPU's features.
    """

    version: str = ""
    why_not: str = ""
    bytes_per_s: int = 0
    cpu: str = ""


def probe(criu: Criu, snapshots: Path, work: Path) -> Offer:
    """Save and restore a program of two sizes, once in this process. Call it off the event loop: it takes seconds.

    snapshots: their folder. work: a folder of the agent.
    """
    with _probing:
        if criu not in _offers:
            _offers[criu] = _probe(criu, snapshots, work)
        return _offers[criu]


def _probe(criu: Criu, snapshots: Path, work: Path) -> Offer:
    if criu.why_not:
        return Offer(criu.version, criu.why_not, cpu=cpu_features())
    own = snapshots / f".{hashlib.sha256(f'{os.uname().nodename} {work}'.encode()).hexdigest()[:16]}"
    try:
        began, took = 0, 0
        for size in (0, HELD_BYTES):
            remove_tree(work)
            work.mkdir(mode=0o700, parents=True)
            image = make_image(own, 0, 0)
            asked = {"criu": criu.program, "folder": str(own), "name": image.name, "identity": image.identity}
            answer = _run({**asked, "work": str(work), "bytes": size})
            if answer["code"]:
                return Offer(criu.version, answer["why"] or reason(own / image.name / DUMP_LOG), cpu=cpu_features())
            at = os.times().elapsed
            digest, _ = sealed(image, {"runtime": {name: answer[name] for name in ("main", "log", "control")}})
            began, took = took, answer["us"] + int((os.times().elapsed - at) * 1_000_000)
        image, _ = verified(own, 0, 0, digest)
        answer = _run({"restore": restore_input(image, criu.program), "work": str(work)})
        if answer["code"]:
            return Offer(criu.version, answer["why"] or reason(work / RESTORE_LOG), cpu=cpu_features())
    except (OSError, BadImage) as problem:
        return Offer(criu.version, str(problem)[:200], cpu=cpu_features())
    finally:
        remove_tree(own)
        remove_tree(work)
    rate = HELD_BYTES * 1_000_000 // (took - began) if took > began else 0
    return Offer(criu.version, bytes_per_s=rate, cpu=cpu_features())


def cpu_features() -> str:
    """Digest of what this machine's CPU can do: a program may have chosen its code by it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = {line.partition(":")[0].strip(): line.partition(":")[2].split() for line in reversed(lines)}
    features = sorted(named.get("flags") or named.get("Features") or [])
    return hashlib.sha256("\n".join([os.uname().machine, *features]).encode()).hexdigest()


def _run(asked: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-I", "-S", "-c", PROBE, json.dumps(asked)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S, stdin=subprocess.DEVNULL)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return {"code": 1, "why": "it was tried, and did not end well"}
    return answer
