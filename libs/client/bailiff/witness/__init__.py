"""`bailiff witness`: a process that remembers each log's newest checkpoint and cosigns only what continues it."""
