"""Device reports and requests to clear a quarantine, as facts; none for what the state contains already."""

from collections.abc import Iterable

from bailiff_bus.messages import (
    ClearQuarantine,
    DeviceClearedReport,
    DeviceHealthyReport,
    DeviceQuarantinedReport,
    DeviceReport,
    DeviceUnhealthyReport,
    NodeInventory,
    QuarantinedDevice,
)
from bailiff_core.model.state import Device, Node
from bailiff_core.records.facts import (
    DeviceCleared,
    DeviceClearRequested,
    DeviceHealthy,
    DeviceQuarantined,
    DeviceUnhealthy,
    RequestId,
)
from bailiff_core.records.payload import Fact

from .rejected import Rejected


def facts_of_device(node: Node, report: DeviceReport) -> list[Fact]:
    """New facts of a report of the node's present incarnation."""
    device = _device(node, report.device)
    if device is None or (device.gone and not quarantined(node, device)):
        return []
    match report:
        case DeviceQuarantinedReport() if not quarantined(node, device):
            return [_quarantined(node.name, report.quarantine)]
        case DeviceClearedReport() if quarantined(node, device):
            return [DeviceCleared(node=node.name, device=device.id, reading=report.reading, requested_by=report.requested_by)]
        case DeviceUnhealthyReport() if device.healthy or device.clear_seq is not None:
            return [
                DeviceUnhealthy(node=node.name, device=device.id, reason=report.reason, code=report.code, detail=report.detail)
            ]
        case DeviceHealthyReport() if not device.healthy and not device.gone:
            return [DeviceHealthy(node=node.name, device=device.id, detail=report.detail)]
    return []


def facts_of_quarantined(known: Node | None, report: NodeInventory) -> list[Fact]:
    """Changes of quarantined devices in an inventory, which lists all of them."""
    dirty = {found.device: found for found in report.quarantined}
    before = [device for device in known.devices if quarantined(known, device)] if known is not None else []
    listed = dict.fromkeys(device.id for device in before)
    there = dict.fromkeys(device.id for device in report.devices)
    facts: list[Fact] = [
        _quarantined(report.node, found) for found in report.quarantined if found.device not in listed and found.device in there
    ]
    facts += [
        DeviceCleared(node=report.node, device=device.id, requested_by=device.clear_seq)
        for device in before
        if device.id not in dirty and device.id in there
    ]
    return facts


def clear_requested(node: Node, request: RequestId, clear: ClearQuarantine) -> list[Fact] | Rejected:
    """Request to clear a device's quarantine; the device is given by id or number."""
    device = _device(node, clear.device) or _numbered(node.devices, clear.device)
    if device is None:
        known = ", ".join(f"{each.number} ({each.id})" for each in node.devices)
        return Rejected("no-such-device", f"{node.name} has no device {clear.device!r}; it has {known or 'none'}"[:2000])
    if device.healthy and not quarantined(node, device):
        return Rejected(
            "not-quarantined", f"{device.id} of {node.name} is neither quarantined nor unhealthy: there is nothing to clear"
        )
    return [DeviceClearRequested(request=request, node=node.name, device=device.id, reason=clear.reason)]


def quarantined(node: Node, device: Device) -> bool:
    """Whether the device is quarantined."""
    return bool(node.quarantined >> device.number & 1)


def _quarantined(node: str, found: QuarantinedDevice) -> Fact:
    return DeviceQuarantined(
        node=node,
        device=found.device,
        reason=found.reason,
        detail=found.detail,
        reading=found.reading,
        baseline=found.baseline,
        job=found.job,
        attempt=found.attempt,
        task=found.task,
    )


def _device(node: Node, device: str) -> Device | None:
    return next((each for each in node.devices if each.id == device), None)


def _numbered(devices: Iterable[Device], text: str) -> Device | None:
    return next((device for device in devices if str(device.number) == text), None)
