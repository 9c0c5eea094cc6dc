"""Whether a pod's volumes let it go to a node, as kube-scheduler judges it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bailiff_kubernetes.quantities import exactly
from bailiff_kubernetes.resources import Object, annotations_of, labels_of

from .node_affinity import holds, meets, terms_text

SELECTED_NODE = "volume.kubernetes.io/selected-node"
ONE_POD = "ReadWriteOncePod"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True)
class Storage:
    """PersistentVolumeClaims by namespace and name; PersistentVolumes and StorageClasses by name."""

    claims: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    volumes: Mapping[str, Object] = field(default_factory=dict)
    classes: Mapping[str, Object] = field(default_factory=dict)


def claiming(spec: Object) -> tuple[Object, ...]:
    """The volumes of a pod that are claims, or make one for it."""
    return tuple(each for each in spec.get("volumes") or () if "persistentVolumeClaim" in each or "ephemeral" in each)


def claim_names(volumes: Iterable[Object]) -> tuple[str, ...]:
    """Of the claims that the user named, and not of those that are made for each pod."""
    return tuple(each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each)


def is_for_one_pod(claim: Object | None) -> bool:
    """Whether one pod of the cluster at a time may use it."""
    return claim is not None and ONE_POD in (claim["spec"].get("accessModes") or ())


def unmet_volume(node: Object, namespace: str, volumes: Sequence[Object], storage: Storage) -> str:
    """The first of these volumes that keeps a pod of the namespace from the node, for people; empty: none does."""
    found = (_unmet(node, claim, storage) for claim in _claims(namespace, volumes, storage))
    return next((why for why in found if why), "")


def _claims(namespace: str, volumes: Sequence[Object], storage: Storage) -> Iterator[Object | str]:
    """Each claim; the name of one that is not there. One that is made for each pod is its template, which has no name."""
    for each in volumes:
        if "ephemeral" in each:
            yield {"metadata": {}, "spec": (each["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {}}
        else:
            name = each["persistentVolumeClaim"]["claimName"]
            yield storage.claims.get((namespace, name), name)


def _unmet(node: Object, claim: Object | str, storage: Storage) -> str:
    if isinstance(claim, str):
        return f"the claim {claim} does not exist"
    name, spec = claim["metadata"].get("name", ""), claim["spec"]
    if claim["metadata"].get("deletionTimestamp"):
        return f"the claim {name} is being deleted"
    if spec.get("volumeName"):
        volume = storage.volumes.get(spec["volumeName"])
        if volume is None:
            return f"the volume {spec['volumeName']} of the claim {name} does not exist"
        return "" if _reaches(volume, node) else f"the volume of the claim {name} is at {terms_text(_terms(volume))}"
    storage_class = storage.classes.get(spec.get("storageClassName") or "", {})
    if storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
        return f"the claim {name} is not bound" if name else ""
    selected = annotations_of(claim).get(SELECTED_NODE)
    if selected not in (None, node["metadata"]["name"]):
        return f"the claim {name} is being bound on {selected}"
    if any(_serves(volume, claim) and _reaches(volume, node) for volume in storage.volumes.values()):
        return ""
    what = f"the claim {name}" if name else f"a claim of the class {spec['storageClassName']}"
    if storage_class["provisioner"] == NO_PROVISIONER:
        return f"no free volume there serves {what}"
    return "" if _is_allowed(storage_class, node) else f"{storage_class['metadata']['name']} makes no volume there for {what}"


def _reaches(volume: Object, node: Object) -> bool:
    terms = _terms(volume)
    return not terms or meets(node, terms)


def _terms(volume: Object) -> Sequence[Object]:
    found: Sequence[Object] = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    return found


def _serves(volume: Object, claim: Object) -> bool:
    """Whether the claim may be bound to this volume, which nobody has."""
    spec, wanted = volume["spec"], claim["spec"]
    if volume["status"].get("phase") != "Available" or volume["metadata"].get("deletionTimestamp"):
        return False
    reserved = spec.get("claimRef")
    if reserved and (reserved.get("namespace"), reserved["name"]) != (
        claim["metadata"].get("namespace"),
        claim["metadata"].get("name"),
    ):
        return False
    selector, labels = wanted.get("selector") or {}, labels_of(volume)
    return (
        spec.get("storageClassName") == wanted["storageClassName"]
        and spec.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and exactly(spec["capacity"]["storage"]) >= exactly(wanted["resources"]["requests"]["storage"])
        and all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
        and all(holds(each, labels) for each in selector.get("matchExpressions") or ())
    )


def _is_allowed(storage_class: Object, node: Object) -> bool:
    """Whether its provisioner may make a volume for the node."""
    terms = storage_class.get("allowedTopologies") or ()
    return not terms or any(
        all(labels_of(node).get(each["key"]) in each["values"] for each in term.get("matchLabelExpressions") or ())
        for term in terms
    )
