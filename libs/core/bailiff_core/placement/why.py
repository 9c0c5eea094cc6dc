"""Says in one sentence why tasks of one kind do not fit: the fast check before any packing is tried."""

from bailiff_core.words import count_text

from .need import Need
from .packing import Where, capacity, has_room, offers
from .rooms import NodeRoom, Rooms

REMARKS_KEPT = 256
PLURAL = {"is": "are", "has": "have", "lacks": "lack"}


def why_not(rooms: Rooms, wanted: dict[Need, int], where: Where, *, later: bool) -> str | None:
    """A reason that holds whatever the packing: one kind of task lacks room by itself, or the sums do not add up."""
    for need, count in wanted.items():
        if not has_room(rooms, need, count, where, later=later):
            return _one_need(rooms, need, count, capacity(rooms, need, where, later=later))
    if len(wanted) > 1:
        return _sums(rooms, wanted, where, later=later)
    return None


def _sums(rooms: Rooms, wanted: dict[Need, int], where: Where, *, later: bool) -> str | None:
    asked = sum(need.gpus * count for need, count in wanted.items())
    useful: dict[NodeRoom, int] = {}
    for need in wanted if asked else ():
        for offer in offers(rooms, need, where, later=later):
            useful[offer.node] = useful.get(offer.node, 0) | offer.suited
    free = sum(((node.later if later else node.now()).devices & mask).bit_count() for node, mask in useful.items())
    if free < asked:
        are = "is" if free == 1 else "are"
        return f"needs {count_text(asked, 'GPU')} in all, {free} {are} {'free or on their way out' if later else 'free'}"
    return None


def _one_need(rooms: Rooms, need: Need, count: int, places: int) -> str:
    largest, unsuited = _remarks(rooms, need)
    if need.gpus and need.gpus == largest:
        wants = f"{count_text(count, 'node')} with {_free(need)} each" if count > 1 else f"a node with {_free(need)}"
        has = "none has them" if not places else f"{places} {'has' if places == 1 else 'have'} them"
    else:
        wants = f"room for {count_text(count, 'task')} of {need}{' each' if count > 1 else ''}"
        has = "there is none" if not places else f"there is room for {places}"
    return "; ".join([f"needs {wants}, {has}", *unsuited])


def _free(need: Need) -> str:
    return str(need).replace(" GPU", " free GPU", 1)


def _remarks(rooms: Rooms, need: Need) -> tuple[int, list[str]]:
    """GPUs of the largest node that suits, and which nodes are out of the question, by what they lack first."""
    key = (need.kind, need.nodes, need.devices, need.share_bytes)
    if key not in rooms.remarks:
        if len(rooms.remarks) >= REMARKS_KEPT:
            rooms.remarks.clear()
        lacking: dict[str, int] = {}
        for node in rooms.nodes.values():
            what = _lacks(node, need)
            if what:
                lacking[what] = lacking.get(what, 0) + 1
        rooms.remarks[key] = (
            max((node.usable.bit_count() for node, _ in rooms.suited(need)), default=0),
            [
                f"{count_text(nodes, 'node')} {what if nodes == 1 else _of_several(what)}"
                for what, nodes in sorted(lacking.items())
            ],
        )
    return rooms.remarks[key]


def _lacks(node: NodeRoom, need: Need) -> str | None:
    if need.nodes and node.name not in need.nodes:
        return "is not named by the job"
    for key, value in need.labels:
        if node.labels.get(key) != value:
            return f"lacks the label {key}={value}"
    if need.hosts(node.units, node.devices_of(need.models)) < need.devices:
        few = "no usable GPU" if need.devices == 1 else f"fewer than {need.devices} usable GPUs"
        return f"has {few}{' of the model ' + ' or '.join(need.models) if need.models else ''}"
    return None


def _of_several(what: str) -> str:
    """`have no usable GPU` for `has no usable GPU`."""
    verb, _, rest = what.partition(" ")
    return f"{PLURAL[verb]} {rest}"
