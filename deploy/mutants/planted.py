"""All planted bugs, room by room."""

from __future__ import annotations

from deploy.mutants.flows.carried_names import OF_NAMES
from deploy.mutants.flows.counted_loops import OF_COUNTED_LOOPS
from deploy.mutants.flows.dict_rows import OF_DICTS
from deploy.mutants.flows.failures import NAMED_FAILURES
from deploy.mutants.flows.first_programs import FIRST_PROGRAMS
from deploy.mutants.flows.idioms import OF_IDIOMS
from deploy.mutants.flows.lateness import OWN_LATENESS
from deploy.mutants.flows.left_loops import OF_LEFT_LOOPS
from deploy.mutants.flows.loops import OF_ITEMS
from deploy.mutants.flows.named_values import NAMED_VALUES
from deploy.mutants.flows.plain_types import OF_PLAIN_TYPES
from deploy.mutants.flows.record_functions import RECORD_FUNCTIONS
from deploy.mutants.flows.tuple_rows import OF_TUPLES
from deploy.mutants.flows.unions import UNIONS
from deploy.mutants.kafka.fetches import FETCHES
from deploy.mutants.keyed.columns_in_files import COLUMNS_IN_FILES, KNOWN_SHARDS
from deploy.mutants.keyed.lookups import LOOKUPS
from deploy.mutants.keyed.spilled_rows import SPILLED_ROWS
from deploy.mutants.machine.damaged_deltas import DAMAGED_DELTAS
from deploy.mutants.moves.copy_batches import COPY_BATCHES
from deploy.mutants.moves.patience import PATIENCE
from deploy.mutants.moves.portions import PORTIONS
from deploy.mutants.planted_chains import CHAINS, CHECKPOINT_PARTS, SEVERAL_TOPICS, WAITING_CONTRIBUTIONS
from deploy.mutants.planted_code import CODE, LARGEST, SIMULATED, VERSIONS
from deploy.mutants.planted_events import ARROW, EVENTS, REGISTRIES
from deploy.mutants.planted_files import FILES, JOINS, SCALING
from deploy.mutants.planted_flows import FLOWS
from deploy.mutants.planted_handlers import DRIVEN_BY_DATA, HANDLERS, SHARDS, WINDOWS
from deploy.mutants.planted_machine import MACHINE
from deploy.mutants.planted_replicas import LAYOUTS, MIXED_FLEETS, REPLICAS
from deploy.mutants.planted_sessions import SESSIONS
from deploy.mutants.planted_state import STATE
from deploy.mutants.planted_transactions import TRANSACTIONS
from deploy.mutants.planted_truncation import COPIES, CPU, ELASTIC, FULL_DISKS, PARTED, RELEASES, TRUNCATION

MUTANTS = (
    *STATE,
    *MACHINE,
    *DAMAGED_DELTAS,
    *REPLICAS,
    *LAYOUTS,
    *MIXED_FLEETS,
    *COPIES,
    *COPY_BATCHES,
    *PATIENCE,
    *PORTIONS,
    *PARTED,
    *RELEASES,
    *FULL_DISKS,
    *CPU,
    *ELASTIC,
    *VERSIONS,
    *SIMULATED,
    *TRUNCATION,
    *TRANSACTIONS,
    *CHAINS,
    *CHECKPOINT_PARTS,
    *SEVERAL_TOPICS,
    *CODE,
    *LARGEST,
    *LOOKUPS,
    *COLUMNS_IN_FILES,
    *KNOWN_SHARDS,
    *SPILLED_ROWS,
    *UNIONS,
    *RECORD_FUNCTIONS,
    *NAMED_FAILURES,
    *FIRST_PROGRAMS,
    *OF_ITEMS,
    *OF_LEFT_LOOPS,
    *OF_COUNTED_LOOPS,
    *OF_IDIOMS,
    *OF_DICTS,
    *OF_TUPLES,
    *OF_PLAIN_TYPES,
    *OF_NAMES,
    *NAMED_VALUES,
    *OWN_LATENESS,
    *FLOWS,
    *JOINS,
    *FETCHES,
    *FILES,
    *SCALING,
    *SESSIONS,
    *SHARDS,
    *WAITING_CONTRIBUTIONS,
    *WINDOWS,
    *DRIVEN_BY_DATA,
    *EVENTS,
    *ARROW,
    *REGISTRIES,
    *HANDLERS,
)
