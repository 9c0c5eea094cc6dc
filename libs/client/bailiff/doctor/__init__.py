"""`bailiff doctor`: what is wrong with this machine, Kafka, the pools and the services. It changes nothing."""
