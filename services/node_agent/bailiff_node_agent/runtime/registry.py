"""The runtimes that a node can have, by name: those below, and plug-ins of other packages.

A package adds one by an entry point of the group `bailiff.runtimes` that names a `RuntimePlugin`. Every node of an agent that
runs where such a package is installed has its runtime.
"""

from collections.abc import Iterable
from importlib import import_module

from bailiff_node_agent.plugins import installed

from .plugin import NodeParts, RuntimePlugin
from .port import Runtime

MODULES = {
    "process": "bailiff_node_agent.runtime.process",
    "docker": "bailiff_node_agent.runtime.docker",
    "kubernetes": "bailiff_node_agent.runtime.kubernetes",
}
"""Each module defines `PLUGIN`. It is imported once a node has that runtime, so its dependencies can be optional."""


def plugin(name: str) -> RuntimePlugin:
    """The runtime of this name. Raises `ValueError` for an unknown one."""
    if name not in MODULES:
        raise ValueError(f"unknown runtime {name!r}; this release has {', '.join(MODULES)}")
    found: RuntimePlugin = import_module(MODULES[name]).PLUGIN
    return found


def open_runtimes(names: Iterable[str], parts: NodeParts) -> dict[str, Runtime]:
    """The node's runtimes, by name: those of plug-ins first."""
    added: tuple[RuntimePlugin, ...] = installed("bailiff.runtimes")
    plugins = [*sorted(added, key=lambda each: each.name), *map(plugin, dict.fromkeys(names))]
    return {each.name: each.open(parts) for each in plugins}
