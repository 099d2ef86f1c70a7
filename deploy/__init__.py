"""What surrounds a deployment: local Kafka, compose, dashboards, peers. Nobody imports it; it is not installed."""
