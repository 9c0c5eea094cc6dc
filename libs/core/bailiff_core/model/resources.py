"""Arithmetic of one node's resources."""

from collections.abc import Mapping

from .gpu_shares import NO_SHARES, units_of
from .state import Node, Resources


def free_after_release(node: Node) -> Resources:
    """Returns the free resources after all releasing ones are released: capacity less what stays allocated or reserved."""
    allocated, releasing, reserved, capacity = node.allocated, node.releasing, node.reserved, node.capacity
    free = Resources(
        capacity.devices & ~((allocated.devices & ~releasing.devices) | reserved.devices | node.quarantined),
        capacity.cpu_milli - allocated.cpu_milli + releasing.cpu_milli - reserved.cpu_milli,
        capacity.memory_bytes - allocated.memory_bytes + releasing.memory_bytes - reserved.memory_bytes,
        capacity.slots - allocated.slots + releasing.slots - reserved.slots,
    )
    for number in {**allocated.shares, **reserved.shares}:
        used = allocated.shares.get(number, 0) - releasing.shares.get(number, 0) + reserved.shares.get(number, 0)
        _set_share_free(free, node, number, used)
    return free


def _set_share_free(free: Resources, node: Node, number: int, used: int) -> None:
    """Replaces the whole free device in `free` by the part that is not in use. used: share units."""
    if used and free.devices >> number & 1:
        free.devices &= ~(1 << number)
        free.shares[number] = units_of(node.devices[number]) - used


def add(total: Resources, devices: int, cpu_milli: int, memory_bytes: int, shares: Mapping[int, int] = NO_SHARES) -> None:
    """Adds the resources of one task to a sum."""
    total.devices |= devices
    total.cpu_milli += cpu_milli
    total.memory_bytes += memory_bytes
    total.slots += 1
    for number, share in shares.items():
        total.shares[number] = total.shares.get(number, 0) + share


def remove(total: Resources, devices: int, cpu_milli: int, memory_bytes: int, shares: Mapping[int, int] = NO_SHARES) -> None:
    """Subtracts the resources of one task from a sum."""
    total.devices &= ~devices
    total.cpu_milli -= cpu_milli
    total.memory_bytes -= memory_bytes
    total.slots -= 1
    for number, share in shares.items():
        left = total.shares.get(number, 0) - share
        if left > 0:
            total.shares[number] = left
        else:
            total.shares.pop(number, None)


def subtract(free: Resources, amount: Resources, units: Mapping[int, int]) -> Resources:
    """Returns `free` less `amount`.

    Args:
        units: Share units of each usable device; other devices are never free.
    """
    devices = free.devices & ~amount.devices
    shares = free.shares
    if amount.shares:
        shares = dict(shares)
        for number, share in amount.shares.items():
            if number in shares:
                shares[number] -= share
            elif devices >> number & 1:
                devices &= ~(1 << number)
                shares[number] = units[number] - share
    return Resources(
        devices, free.cpu_milli - amount.cpu_milli, free.memory_bytes - amount.memory_bytes, free.slots - amount.slots, shares
    )


def release(free: Resources, amount: Resources, units: Mapping[int, int], usable: int) -> Resources:
    """Returns `free` plus `amount`, the inverse of `subtract`. A device without shares in use becomes a whole device again."""
    devices = free.devices | amount.devices & usable
    shares = free.shares
    if amount.shares:
        shares = dict(shares)
        for number, share in amount.shares.items():
            if number in shares:
                shares[number] += share
                if shares[number] >= units[number]:
                    del shares[number]
                    devices |= 1 << number
    return Resources(
        devices, free.cpu_milli + amount.cpu_milli, free.memory_bytes + amount.memory_bytes, free.slots + amount.slots, shares
    )


def intersection(one: Resources, other: Resources) -> Resources:
    """Returns the resources that are free in both."""
    shares = one.shares
    if one.shares or other.shares:
        shares = {}
        for number in {**one.shares, **other.shares}:
            mine, theirs = one.shares.get(number), other.shares.get(number)
            if mine is not None and theirs is not None:
                shares[number] = min(mine, theirs)
            elif mine is not None and other.devices >> number & 1:
                shares[number] = mine
            elif theirs is not None and one.devices >> number & 1:
                shares[number] = theirs
    return Resources(
        one.devices & other.devices,
        min(one.cpu_milli, other.cpu_milli),
        min(one.memory_bytes, other.memory_bytes),
        min(one.slots, other.slots),
        shares,
    )


def contains(free: Resources, amount: Resources) -> bool:
    """Whether `amount` fits into `free`."""
    return (
        not amount.devices & ~free.devices
        and amount.cpu_milli <= max(0, free.cpu_milli)
        and amount.memory_bytes <= max(0, free.memory_bytes)
        and amount.slots <= free.slots
        and all(free.devices >> number & 1 or share <= free.shares.get(number, -1) for number, share in amount.shares.items())
    )
