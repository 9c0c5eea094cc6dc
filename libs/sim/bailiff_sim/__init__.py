"""Simulator: runs the real core on traces and logs in virtual time, without Kafka or a running system."""
