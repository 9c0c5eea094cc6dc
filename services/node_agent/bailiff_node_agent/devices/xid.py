"""What NVIDIA's driver reports as Xid errors, by their number in NVIDIA's list of them."""

# Errors of applications: the process dies, and the device is fine for the next one.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})
XIDS = {
    48: "uncorrectable memory error",
    62: "the device's own processor halted",
    63: "a page or row of memory is retired",
    64: "a page or row of memory could not be retired",
    74: "NVLink error",
    79: "the device has fallen off the bus",
    92: "many correctable memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "the device's system processor does not answer",
    120: "error of the device's system processor",
    140: "unrecovered memory error",
}
