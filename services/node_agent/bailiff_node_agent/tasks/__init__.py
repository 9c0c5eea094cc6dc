"""One task on this node, from the order that starts it until nothing of it is left."""
