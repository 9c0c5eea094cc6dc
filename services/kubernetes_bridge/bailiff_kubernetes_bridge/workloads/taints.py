"""Whether a pod tolerates the taints of a node, as kube-scheduler judges it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bailiff_kubernetes.resources import Object

KEEP_AWAY = ("NoSchedule", "NoExecute")
OF_KUBERNETES = "node.kubernetes.io/"
"""Its own taints say how a node is at the moment, such as not ready."""


def untolerated(node: Object, tolerations: Sequence[Object]) -> str:
    """A lasting taint that keeps such a pod from the node, for people; empty: none does."""
    for taint in node["spec"].get("taints") or ():
        lasts = taint["effect"] in KEEP_AWAY and not taint["key"].startswith(OF_KUBERNETES)
        if lasts and not any(_tolerates(each, taint) for each in tolerations):
            return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return ""


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]) or toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator", "Equal") == "Equal":
        return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
    return True  # of a later Kubernetes: kube-scheduler knows it
