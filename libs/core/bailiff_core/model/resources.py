"""Arithmetic of one node's resources."""

from collections.abc import Mapping

from .gpu_shares import NO_SHARES, units_of
from .state import Node, Resources


def free_after_release(node: Node) -> Resources:
    """What will be free once everything on its way out is gone: idle room included, promises kept back."""
    held, releasing, reserved, capacity = node.allocated, node.releasing, node.reserved, node.capacity
    room = Resources(
        capacity.devices & ~((held.devices & ~releasing.devices) | reserved.devices | node.quarantined),
        capacity.cpu_milli - held.cpu_milli + releasing.cpu_milli - reserved.cpu_milli,
        capacity.memory_bytes - held.memory_bytes + releasing.memory_bytes - reserved.memory_bytes,
        capacity.slots - held.slots + releasing.slots - reserved.slots,
    )
    for number in {**held.shares, **reserved.shares}:
        used = held.shares.get(number, 0) - releasing.shares.get(number, 0) + reserved.shares.get(number, 0)
        _share_out(room, node, number, used)
    return room


def _share_out(room: Resources, node: Node, number: int, used: int) -> None:
    """In `room`, which has the device free and whole, so much of it is in use."""
    if used and room.devices >> number & 1:
        room.devices &= ~(1 << number)
        room.shares[number] = units_of(node.devices[number]) - used


def add(room: Resources, devices: int, cpu_milli: int, memory_bytes: int, shares: Mapping[int, int] = NO_SHARES) -> None:
    """Count one more task in `room`."""
    room.devices |= devices
    room.cpu_milli += cpu_milli
    room.memory_bytes += memory_bytes
    room.slots += 1
    for number, share in shares.items():
        room.shares[number] = room.shares.get(number, 0) + share


def remove(room: Resources, devices: int, cpu_milli: int, memory_bytes: int, shares: Mapping[int, int] = NO_SHARES) -> None:
    """Take one task out of `room`."""
    room.devices &= ~devices
    room.cpu_milli -= cpu_milli
    room.memory_bytes -= memory_bytes
    room.slots -= 1
    for number, share in shares.items():
        left = room.shares.get(number, 0) - share
        if left > 0:
            room.shares[number] = left
        else:
            room.shares.pop(number, None)


def subtract(room: Resources, amount: Resources, units: Mapping[int, int]) -> Resources:
    """Free room without `amount`. `units`: of each device that may be used; of others nothing is ever free."""
    devices = room.devices & ~amount.devices
    shares = room.shares
    if amount.shares:
        shares = dict(shares)
        for number, share in amount.shares.items():
            if number in shares:
                shares[number] -= share
            elif devices >> number & 1:
                devices &= ~(1 << number)
                shares[number] = units[number] - share
    return Resources(
        devices,
        room.cpu_milli - amount.cpu_milli,
        room.memory_bytes - amount.memory_bytes,
        room.slots - amount.slots,
        shares,
    )


def release(room: Resources, amount: Resources, units: Mapping[int, int], usable: int) -> Resources:
    """Free room and `amount`: the opposite of `less`. A device of which nothing is in use any more is whole again."""
    devices = room.devices | amount.devices & usable
    shares = room.shares
    if amount.shares:
        shares = dict(shares)
        for number, share in amount.shares.items():
            if number in shares:
                shares[number] += share
                if shares[number] >= units[number]:
                    del shares[number]
                    devices |= 1 << number
    return Resources(
        devices,
        room.cpu_milli + amount.cpu_milli,
        room.memory_bytes + amount.memory_bytes,
        room.slots + amount.slots,
        shares,
    )


def intersection(one: Resources, other: Resources) -> Resources:
    """What is free in one and in the other."""
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


def contains(room: Resources, amount: Resources) -> bool:
    """Whether `amount` can be taken of this free room."""
    return (
        not amount.devices & ~room.devices
        and amount.cpu_milli <= max(0, room.cpu_milli)
        and amount.memory_bytes <= max(0, room.memory_bytes)
        and amount.slots <= room.slots
        and all(room.devices >> number & 1 or share <= room.shares.get(number, -1) for number, share in amount.shares.items())
    )
