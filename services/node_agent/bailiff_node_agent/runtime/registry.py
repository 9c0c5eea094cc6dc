"""The runtimes that a node can have, by name. A new runtime adds one line to `MODULES`."""

from collections.abc import Iterable
from importlib import import_module

from .plugin import NodeParts, RuntimePlugin
from .port import Runtime

MODULES = {
    "simulated": "bailiff_node_agent.runtime.simulated",
    "process": "bailiff_node_agent.runtime.process",
    "docker": "bailiff_node_agent.runtime.docker",
    "kubernetes": "bailiff_node_agent.runtime.kubernetes",
}
"""Each module defines `PLUGIN`. It is imported once a node has that runtime, so its dependencies can be optional."""
EVERY_NODE = ("simulated",)
"""Nodes have these without naming them."""


def plugin(name: str) -> RuntimePlugin:
    """The runtime of this name. Raises `ValueError` for an unknown one."""
    if name not in MODULES:
        raise ValueError(f"unknown runtime {name!r}; this release has {', '.join(MODULES)}")
    found: RuntimePlugin = import_module(MODULES[name]).PLUGIN
    return found


def open_runtimes(names: Iterable[str], parts: NodeParts) -> dict[str, Runtime]:
    """The node's runtimes, by name."""
    return {name: plugin(name).open(parts) for name in dict.fromkeys([*EVERY_NODE, *names])}
