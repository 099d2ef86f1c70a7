"""JSON records of a msgspec Struct as columns, by compiled loops; what these do not take is msgspec's."""
