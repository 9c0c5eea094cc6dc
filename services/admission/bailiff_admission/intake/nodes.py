"""Words about nodes that requests name."""

from bailiff_core.model.pool import Pool

from .rejected import Rejected

NAMED = 20


def no_such_node(pool: Pool, node: str) -> Rejected:
    """The pool has no node of that name; which it has."""
    names = sorted(pool.node_numbers)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return Rejected("no-such-node", f"there is no node {node!r}; the pool has {', '.join(names[:NAMED]) or 'none'}{more}")
