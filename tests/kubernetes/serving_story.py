"""Deployments and what is like them, as users write them, and their jobs in Bailiff."""

import copy

from tests.kubernetes.bridge_system import POOL

from bailiff_kubernetes import names

LABELS = {names.POOL: POOL, names.PRIORITY_CLASS: "train"}


def template(users, gpus, **labels):
    found = copy.deepcopy(users.job("x", pods=1, gpus=gpus)["spec"]["template"])
    found["metadata"] |= {"labels": labels}
    return found


def replicated(users, kind, name, replicas, gpus):
    """With Bailiff's labels where a user puts them: on top."""
    pod = template(users, gpus, app=name)
    del pod["spec"]["restartPolicy"]
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "serviceName": name, "template": pod}
    if kind != "StatefulSet":
        del spec["serviceName"]
    else:
        spec["podManagementPolicy"] = "Parallel"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": LABELS}, "spec": spec}


def jobs_of(users, name):
    """Jobs of the workload's pods."""
    return [
        job
        for job in users.watch.state.jobs.values()
        if job.demand.labels.get("kubernetes/namespace") == users.namespace
        and job.demand.labels["kubernetes/name"].startswith(name)
    ]
