"""Messaging: the port to a log of topics, Kafka behind it, the registry of topics, message types and their envelope.

`testing` has an in-memory implementation, for tests only; both pass the same contract suite. No scheduling rules, no services.
"""
