"""Runtime of every service: main, settings, health endpoints, metrics, logs, tracing, pool ownership."""
