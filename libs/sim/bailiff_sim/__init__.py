"""Policies on traces: the same core under virtual time, without Kafka. Nothing here talks to a running system."""
