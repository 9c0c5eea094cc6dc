"""Users, access lists and certificates of Kafka, from the table of rights in `bailiff_bus.grants`."""
