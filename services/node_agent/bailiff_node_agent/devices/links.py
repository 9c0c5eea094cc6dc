"""Islands: GPUs of one machine that NVLink connects, or where they have none, one PCIe switch. Read through NVML."""

from collections.abc import Callable, Mapping
from typing import Any

Handles = Mapping[str, Any]
SWITCH = "switch"


def islands(nvml: Any, handles: Handles) -> dict[str, str]:
    """The island of each GPU that shares one with others, by id: `nvlink-0`, `pcie-0`. handles: by id, in order."""
    linked = _link_ends(nvml, handles)

    def by_nvlink(one: str, other: str) -> bool:
        kind = getattr(nvml, "NVML_P2P_CAPS_INDEX_NVLINK", None)
        status = _answer(nvml, "nvmlDeviceGetP2PStatus", handles[one], handles[other], kind)
        if status is not None:
            return bool(status == nvml.NVML_P2P_STATUS_OK)
        return bool(linked[one] & linked[other] & {SWITCH}) or _bus_id(nvml, handles[other]) in linked[one]

    def by_pcie(one: str, other: str) -> bool:
        level = _answer(nvml, "nvmlDeviceGetTopologyCommonAncestor", handles[one], handles[other])
        return level is not None and level <= nvml.NVML_TOPOLOGY_MULTIPLE

    found = _named("nvlink", [*handles], by_nvlink)
    return found | _named("pcie", [gpu for gpu in handles if gpu not in found], by_pcie)


def _named(kind: str, gpus: list[str], connected: Callable[[str, str], bool]) -> dict[str, str]:
    """Groups of GPUs that are connected, directly or through others, by GPU; not those of one."""
    groups: list[list[str]] = []
    for gpu in gpus:
        joined = [group for group in groups if any(connected(other, gpu) for other in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(other for group in joined for other in group), gpu])
    several = sorted((group for group in groups if len(group) > 1), key=lambda group: min(map(gpus.index, group)))
    return {gpu: f"{kind}-{number}" for number, group in enumerate(several) for gpu in group}


def _link_ends(nvml: Any, handles: Handles) -> dict[str, set[str]]:
    """What is at the other end of each GPU's active NVLinks: PCI bus ids, and `SWITCH` for an NVSwitch."""
    found: dict[str, set[str]] = {}
    for gpu, handle in handles.items():
        ends = found[gpu] = set[str]()
        for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 0)):
            if _answer(nvml, "nvmlDeviceGetNvLinkState", handle, link) != 1:
                continue
            kind = _answer(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
            if kind is not None and kind == getattr(nvml, "NVML_NVLINK_DEVICE_TYPE_SWITCH", None):
                ends.add(SWITCH)
                continue
            remote = _answer(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
            if remote is not None:
                ends.add(_text(remote.busId))
    return found


def _bus_id(nvml: Any, handle: Any) -> str:
    info = _answer(nvml, "nvmlDeviceGetPciInfo", handle)
    return _text(info.busId) if info is not None else ""


def _answer(nvml: Any, name: str, *arguments: Any) -> Any:
    """None where the driver has no answer."""
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def _text(value: str | bytes) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else value).lower()
