"""Runs Kafka, PostgreSQL and Bailiff's services as child processes on one machine, and simulates GPU nodes.

For the demo, the tests and `make up`: it starts processes, waits until they are ready, and stops exactly what it started. It
needs neither Docker nor a JDK. It contains nothing that a service needs in production (no service imports this package).
"""
