"""MIG devices: partitions of a card that an administrator made. A job gets them by profile; they never count as whole GPUs."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol

from .gpu_kinds import NO_KINDS, GpuKinds
from .placement_ranges import bits
from .policy import Policy
from .resource_vector import Amount
from .state import Device, Node

SLICES = 7  # compute slices of a card
UNNAMED = "mig"  # no job can request it


class Kind(Protocol):
    """A device of the state, or as a node announces it."""

    @property
    def kind(self) -> str:
        """`gpu` or `mig`."""
        ...

    @property
    def profile(self) -> str:
        """Of a MIG device."""
        ...


def profile_of(device: Kind) -> str:
    """Returns the device's MIG profile; empty: it is a whole GPU."""
    return device.profile or (UNNAMED if device.kind == "mig" else "")


def mig_gpu_milli(profile: str, weights: Mapping[str, int]) -> Amount:
    """Returns what a MIG device of this profile counts as, in thousandths of a GPU: its weight, else its slices of seven.

    `1c.3g.40gb` is one of three parts of such a device, and counts as one slice. An unknown profile counts as a GPU.
    """
    if profile in weights:
        return weights[profile]
    slices = int(profile[0]) if profile[:1].isdecimal() else SLICES
    found = Fraction(1000 * min(slices, SLICES), SLICES)
    return found.numerator if found.denominator == 1 else found


def device_gpu_milli(device: Kind, weights: Mapping[str, int]) -> Amount:
    """Returns what the device counts as, in thousandths of a GPU."""
    profile = profile_of(device)
    return mig_gpu_milli(profile, weights) if profile else 1000


def gpu_kinds_of(policy: Policy | None) -> GpuKinds:
    """Returns the kinds of GPU that the policy's quotas and limits name."""
    return NO_KINDS if policy is None else GpuKinds.of(policy.projects, policy.gpu_groups)


def mig_weights_of(policy: Policy | None) -> Mapping[str, int]:
    """Returns the weights by profile that the policy sets."""
    return policy.devices.mig_weights if policy is not None else {}


def usable_gpu_milli(node: Node, policy: Policy | None) -> Amount:
    """Returns what the node's healthy devices that are not quarantined count as, in thousandths of a GPU."""
    weights = mig_weights_of(policy)
    usable = node.capacity.devices & ~node.quarantined
    return sum((device_gpu_milli(node.devices[number], weights) for number in bits(usable)), start=0)


def listed_devices(node: Node) -> list[Device]:
    """Returns the node's devices without those that are gone and that no task, reservation or quarantine refers to."""
    used = node.allocated.devices | node.reserved.devices | node.quarantined
    return [device for device in node.devices if not device.gone or used >> device.number & 1]
