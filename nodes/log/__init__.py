"""The logs behind one contract: embedded, in memory and Kafka."""
