"""What the agent does with its tasks: start, evict, watch, release."""
