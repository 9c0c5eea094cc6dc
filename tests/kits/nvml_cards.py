"""A small stand-in for the Python binding of NVML: cards with MIG devices, NVLink and PCIe switches, which may change.

It answers what the node agent asks, as the documentation of NVML says; nvml-mock (NVIDIA/k8s-test-infra) has no MIG devices.
"""

# ruff: noqa: N802

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

GIB = 1 << 30


class NVMLError(Exception):
    pass


class NotSupported(NVMLError):
    pass


class FunctionNotFound(NVMLError):
    pass


class NotFound(NVMLError):
    pass


@dataclass
class Instance:
    """A MIG device. attributes: (compute slices, GPU slices, memory in MiB), for drivers that do not name the profile."""

    uuid: str
    profile: str
    gib: int
    instance: int
    pids: tuple[int, ...] = ()
    named: bool = True
    attributes: tuple[int, int, int] = (3, 3, 40 * 1024)


@dataclass
class Card:
    """A card; `parts` by number, with gaps where one was removed. bus: its PCI id; links: what its NVLinks lead to."""

    uuid: str
    gib: int = 80
    partitioned: bool = False
    parts: dict[int, Instance] = field(default_factory=dict)
    bus: str = "0000:00:00.0"
    links: tuple[str, ...] = ()
    lost: bool = False
    ecc: int = 0


@dataclass
class Machine:
    """Cards, and what the driver says of each pair. p2p: pairs with NVLink by P2P status; None: it does not answer that."""

    cards: list[Card]
    p2p: frozenset[frozenset[str]] | None = None
    switches: Mapping[str, int] = field(default_factory=dict)
    events: list[SimpleNamespace] = field(default_factory=list)

    def found(self, uuid: str) -> tuple[Card, Instance | None]:
        for card in self.cards:
            if uuid == card.uuid:
                return self._answers(card), None
            for part in card.parts.values():
                if uuid == part.uuid:
                    return self._answers(card), part
        raise NotFound("Not Found")

    def _answers(self, card: Card) -> Card:
        if card.lost:
            raise NVMLError("GPU is lost")
        return card

    def module(self) -> ModuleType:
        """As `pynvml`. A handle is the UUID."""
        nvml: Any = ModuleType("pynvml")
        nvml.NVMLError, nvml.NVMLError_NotSupported = NVMLError, NotSupported
        nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NotFound = FunctionNotFound, NotFound
        nvml.nvmlMemory_v2, nvml.nvmlEventTypeXidCriticalError = 2, 8
        nvml.NVML_P2P_CAPS_INDEX_NVLINK, nvml.NVML_P2P_STATUS_OK, nvml.NVML_TOPOLOGY_MULTIPLE = 2, 0, 20
        nvml.NVML_NVLINK_MAX_LINKS, nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH = 18, 2
        nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC = 1, 0
        for name in [each for each in dir(self) if each.startswith("nvml")]:
            setattr(nvml, name, getattr(self, name))
        return nvml

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.1"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self._answers(self.cards[index]).uuid

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.found(uuid)
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        _, part = self.found(handle)
        return "NVIDIA H100 80GB HBM3" + (f" MIG {part.profile}" if part is not None and part.named else "")

    def nvmlDeviceGetPciInfo(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(busId=self.found(handle)[0].bus)

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int = 1) -> SimpleNamespace:
        card, part = self.found(handle)
        total = (part.gib if part is not None else card.gib) * GIB
        return SimpleNamespace(total=total, used=total if part is not None and part.pids else 0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        _, part = self.found(handle)
        return [SimpleNamespace(pid=pid, usedGpuMemory=GIB) for pid in (part.pids if part is not None else ())]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        if self.found(handle)[1] is not None:
            raise NotSupported("Not Supported")
        return []

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: str) -> list[SimpleNamespace]:
        raise NotSupported("Not Supported")

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        if self.found(handle)[1] is not None:
            raise NotSupported("Not Supported")
        return SimpleNamespace(gpu=7)

    def nvmlDeviceGetRemappedRows(self, handle: str) -> tuple[int, ...]:
        if self.found(handle)[1] is not None:
            raise NotSupported("Not Supported")
        return (0, 0, 0, 0)

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, counter: int) -> int:
        card, part = self.found(handle)
        if part is not None:
            raise NotSupported("Not Supported")
        return card.ecc

    # --- MIG

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        mode = int(self.found(handle)[0].partitioned)
        return [mode, mode]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, number: int) -> str:
        parts = self.found(handle)[0].parts
        if number not in parts:
            raise NotFound("Not Found")
        return parts[number].uuid

    def nvmlDeviceGetGpuInstanceId(self, handle: str) -> int:
        part = self.found(handle)[1]
        assert part is not None
        return part.instance

    def nvmlDeviceGetAttributes_v2(self, handle: str) -> SimpleNamespace:
        part = self.found(handle)[1]
        assert part is not None
        compute, slices, memory = part.attributes
        return SimpleNamespace(computeInstanceSliceCount=compute, gpuInstanceSliceCount=slices, memorySizeMB=memory)

    # --- links

    def nvmlDeviceGetP2PStatus(self, one: str, other: str, index: int) -> int:
        if self.p2p is None:
            raise NotSupported("Not Supported")
        return 0 if frozenset((one, other)) in self.p2p else 5

    def nvmlDeviceGetNvLinkState(self, handle: str, link: int) -> int:
        if link >= len(self.found(handle)[0].links):
            raise NotSupported("Not Supported")
        return 1

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: str, link: int) -> int:
        return 2 if self.found(handle)[0].links[link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: str, link: int) -> SimpleNamespace:
        return SimpleNamespace(busId=self.found(handle)[0].links[link].encode())

    def nvmlDeviceGetTopologyCommonAncestor(self, one: str, other: str) -> int:
        if one not in self.switches or other not in self.switches:
            raise NotSupported("Not Supported")
        return 10 if self.switches[one] == self.switches[other] else 50

    # --- events

    def nvmlEventSetCreate(self) -> str:
        return "events"

    def nvmlDeviceRegisterEvents(self, handle: str, kinds: int, events: str) -> None:
        if self.found(handle)[1] is not None:
            raise NotSupported("Not Supported")

    def nvmlEventSetWait_v2(self, events: str, timeout: int) -> SimpleNamespace:
        if not self.events:
            raise NVMLError("Timeout")
        return self.events.pop(0)


def installed(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    """The node agent's NVML inventory reads this machine."""
    import sys

    monkeypatch.setitem(sys.modules, "pynvml", machine.module())
