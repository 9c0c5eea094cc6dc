"""Messaging: the bus port and its Kafka implementation, the registry of topics, message types and their envelope.

`testing` has an in-memory implementation, for tests only; both pass the same contract suite. No scheduling rules, no services.
"""
