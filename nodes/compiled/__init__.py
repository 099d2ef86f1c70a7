"""Compiled loops kept as machine code: built once, tried in another process, loaded without the compiler."""
