"""Kubernetes objects of files: `kubectl get -o json`, audit logs. Read one at a time, so a list may be large."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from bailiff_sim.cluster import Machine
from bailiff_sim.text_files import text_of

from .records import BadLine
from .slurm_config import model_name
from .values import Unreadable, moment, shown

CHUNK = 1 << 16
ITEMS = re.compile(r'\s*\{\s*("(?:apiVersion|kind)"\s*:\s*"[^"]*"\s*,\s*)*"items"\s*:\s*\[')
UTC = ZoneInfo("UTC")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
MODEL_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name")
SUFFIX = {"": 1, "k": 1000, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


class Seen(NamedTuple):
    """An object.

    Attributes:
        where: For messages.
        at: Time of the audit event that has it, µs UTC; None: of a list.
    """

    where: str
    object: Mapping[str, Any]
    at: int | None = None


def objects(files: Sequence[Path]) -> Iterator[Seen | BadLine]:
    """Each object of the files, items of lists and of audit events too. Raises `ValueError` if a file cannot be opened."""
    for path in files:
        for number, found in enumerate(_documents(path), 1):
            where = f"{path.name}: object {number}"
            if isinstance(found, str):
                yield BadLine(where, "json", found)
            elif not isinstance(found, dict):
                yield BadLine(where, "json", f"expected an object of Kubernetes, found {shown(str(found))}")
            elif isinstance(found.get("items"), list):
                yield from (
                    Seen(f"{where}, item {at}", each) for at, each in enumerate(found["items"], 1) if isinstance(each, dict)
                )
            else:
                yield _unpacked(where, found)


def unreadable_of(files: Sequence[Path], take: Callable[[Seen], None]) -> Iterator[BadLine]:
    """Give each object of the files to `take`; yields those that cannot be read or do not have the form of the API."""
    for seen in objects(files):
        if isinstance(seen, BadLine):
            yield seen
            continue
        try:
            take(seen)
        except (Unreadable, KeyError, TypeError, AttributeError) as error:
            text = str(error) if isinstance(error, Unreadable) else f"expected the form of the API, found {error!r}"
            yield BadLine(seen.where, f"{seen.object.get('kind', 'an object')} {name_of(seen.object)}", text)


def _unpacked(where: str, found: Mapping[str, Any]) -> Seen | BadLine:
    if not str(found.get("apiVersion", "")).startswith("audit.k8s.io/"):
        return Seen(where, found)
    body = (
        found.get("responseObject")
        if found.get("verb") != "delete"
        else found.get("requestObject") or found.get("responseObject")
    )
    try:
        at = time_of(found, "stageTimestamp", "requestReceivedTimestamp")
    except Unreadable as error:
        return BadLine(where, "stageTimestamp", str(error))
    return Seen(where, body if isinstance(body, dict) else {"kind": "none"}, at)


def _documents(path: Path) -> Iterator[Any]:
    """Values of the file, and items of a list at its top; a text is an error, after which nothing follows."""
    decoder = json.JSONDecoder()
    with text_of(path) as text:
        held, at, more = text.read(CHUNK), 0, True
        found = ITEMS.match(held)
        at = found.end() if found else 0
        while True:
            while at < len(held) and held[at] in " \t\r\n,":
                at += 1
            if at == len(held) and more:
                held, at = text.read(CHUNK), 0
                more = bool(held)
                continue
            if at == len(held) or (found and held[at] == "]"):
                return
            try:
                value, at = decoder.raw_decode(held, at)
            except json.JSONDecodeError as error:
                added = text.read(max(CHUNK, len(held) - at))
                if not added:
                    yield f"not JSON: {error.msg}; the rest of the file is not read"
                    return
                held, at = held[at:] + added, 0
                continue
            except RecursionError:
                yield "not JSON of Kubernetes: nested too deeply; the rest of the file is not read"
                return
            yield value


def name_of(found: Mapping[str, Any]) -> str:
    """`namespace/name`."""
    meta = found.get("metadata") or {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}".removeprefix("/")


def time_of(found: Mapping[str, Any], *fields: str) -> int | None:
    """The first of these times that is set, µs UTC. Raises `Unreadable`."""
    for field in fields:
        text = found.get(field)
        if text:
            return moment(str(text).replace("Z", "+00:00"), UTC)
    return None


def conditions(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of the object's status, by type."""
    return {str(each.get("type")): each for each in (found.get("status") or {}).get("conditions") or () if isinstance(each, dict)}


def gpus_of_pod(spec: Mapping[str, Any]) -> int:
    """GPUs that a pod of this spec requests. Raises `Unreadable`."""
    total = 0
    for container in spec.get("containers") or ():
        wanted = container.get("resources") or {}
        amounts = {**(wanted.get("limits") or {}), **(wanted.get("requests") or {})}
        total += sum(quantity(amounts[name]) for name in GPU_RESOURCES if name in amounts)
    return total


def uses_other_gpus(spec: Mapping[str, Any]) -> bool:
    """Whether the pod requests parts of GPUs or claims, which are not counted."""
    if spec.get("resourceClaims"):
        return True
    amounts = [(each.get("resources") or {}).get("limits") or {} for each in spec.get("containers") or ()]
    return any(name.startswith("nvidia.com/mig-") or name == "nvidia.com/gpu.shared" for each in amounts for name in each)


def quantity(value: object) -> int:
    """A whole amount: `8`, `64Gi`, `4k`. Raises `Unreadable`."""
    found = re.fullmatch(r"(\d+)([a-zA-Z]*)", str(value))
    if found is None or found[2] not in SUFFIX:
        raise Unreadable(f"expected a whole amount such as 8, found {shown(str(value))}")
    return int(found[1]) * SUFFIX[found[2]]


def machine(node: Mapping[str, Any]) -> Machine | None:
    """A node with GPUs. Raises `Unreadable`."""
    capacity = (node.get("status") or {}).get("capacity") or {}
    gpus = sum(quantity(capacity[name]) for name in GPU_RESOURCES if name in capacity)
    labels = (node.get("metadata") or {}).get("labels") or {}
    model = next((labels[name] for name in MODEL_LABELS if name in labels), "")
    if gpus > 64:
        raise Unreadable(f"expected at most 64 GPUs on a node, found {gpus}")
    return Machine(str(node["metadata"]["name"]), gpus, model_name(str(model)) if model else "gpu") if gpus else None
