"""The door to Kafka: how to reach it (`connection`), how to talk to it (`wire`, `cluster`), how to read its control plane."""
