"""What every service's process needs: its main, settings, health endpoints, metrics, logs, tracing, ownership of pools."""
