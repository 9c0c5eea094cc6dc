"""Device reports as facts; none for what the state contains already."""

from bailiff_bus.messages import devices
from bailiff_bus.messages.reports import NodeInventory
from bailiff_core.model.state import Device, Node
from bailiff_core.records.facts import DeviceCleared, DeviceHealthy, DeviceQuarantined, DeviceUnhealthy
from bailiff_core.records.payload import Fact


def facts_of_device(node: Node, report: devices.DeviceReport) -> list[Fact]:
    """New facts of a report of the node's present incarnation."""
    device = _device(node, report.device)
    if device is None or (device.gone and not quarantined(node, device)):
        return []
    match report:
        case devices.DeviceQuarantinedReport() if not quarantined(node, device):
            return [DeviceQuarantined.saying(report.quarantine, node=node.name)]
        case devices.DeviceClearedReport() if quarantined(node, device):
            return [DeviceCleared.saying(report)]
        case devices.DeviceUnhealthyReport() if device.healthy or device.clear_seq is not None:
            return [DeviceUnhealthy.saying(report)]
        case devices.DeviceHealthyReport() if not device.healthy and not device.gone:
            return [DeviceHealthy.saying(report)]
    return []


def facts_of_quarantined(known: Node | None, report: NodeInventory) -> list[Fact]:
    """Changes of quarantined devices in an inventory, which lists all of them."""
    dirty = {found.device: found for found in report.quarantined}
    before = [device for device in known.devices if quarantined(known, device)] if known is not None else []
    listed = dict.fromkeys(device.id for device in before)
    there = dict.fromkeys(device.id for device in report.devices)
    facts: list[Fact] = [
        DeviceQuarantined.saying(found, node=report.node)
        for found in report.quarantined
        if found.device not in listed and found.device in there
    ]
    facts += [
        DeviceCleared(node=report.node, device=device.id, requested_by=device.clear_seq)
        for device in before
        if device.id not in dirty and device.id in there
    ]
    return facts


def quarantined(node: Node, device: Device) -> bool:
    """Whether the device is quarantined."""
    return bool(node.quarantined >> device.number & 1)


def _device(node: Node, device: str) -> Device | None:
    return next((each for each in node.devices if each.id == device), None)
