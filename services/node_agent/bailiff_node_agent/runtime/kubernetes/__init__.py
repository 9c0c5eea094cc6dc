"""The Kubernetes runtime: tasks as pods of this node, which the kubelet runs and the API server records.

`runtime` is the port; `follow` takes one pod from its creation to its proven end; `manifest` writes pods and `pod_status` reads
them; `volumes`, `control_server` and `pod_processes` are the node's side of a pod: its control directory, its messages and its
processes. Decisions and Kafka belong elsewhere, as for every runtime.
"""

from bailiff_node_agent.runtime.plugin import RuntimePlugin

from .runtime import KubernetesRuntime, open_runtime

__all__ = ["PLUGIN", "KubernetesRuntime"]

PLUGIN = RuntimePlugin("kubernetes", open_runtime)
