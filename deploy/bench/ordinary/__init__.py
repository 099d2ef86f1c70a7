"""Twelve ordinary jobs for `holon bench deploy.bench.ordinary`, each with the code of its peers and its records.

Each module has a ``job`` by columns, the same job ``by_record`` and as a ``flow``, and ``records(draw)``, which draws
its records without an end.
``flink/NAME.sql``, ``python/NAME.py`` and ``pathway/NAME.py`` are the same for the peers.
"""
