"""MIG devices: partitions of a card that an administrator made. A job gets them by profile; they never count as whole GPUs."""

from collections.abc import Mapping
from fractions import Fraction

from .resource_vector import Amount
from .state import Device

SLICES = 7  # compute slices of a card
UNNAMED = "mig"  # no job can request it


def profile_of(device: Device) -> str:
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


def device_gpu_milli(device: Device, weights: Mapping[str, int]) -> Amount:
    """Returns what the device counts as, in thousandths of a GPU."""
    profile = profile_of(device)
    return mig_gpu_milli(profile, weights) if profile else 1000
