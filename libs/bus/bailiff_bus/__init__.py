"""What lies between the services: topics and their schemas, the envelope, the log's reader and writer, the runtime.

Two buses stand behind one port (`port`): Kafka (`kafka`), and one in memory for simulation (`memory`), which pass
the same contract suite. No scheduling rule may enter here, and no service.
"""
