"""Avro records: writers' schemas resolved against types, values read and written. No registry is reached from here."""
