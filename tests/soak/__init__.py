"""A day in the life: hours of a real trace against all services on a real Kafka, with kills (`make soak`)."""
