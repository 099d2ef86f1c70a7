"""Bugs of transactional state beyond memory: where its disk fails, and in processes that are forked."""

from __future__ import annotations

from deploy.mutants.model import Mutant

_UNIT = "tests/unit/nodes/transactions/checkpoints/test_spill.py::"
_FULL = _UNIT + "test_a_full_disk_ends_the_node_and_is_no_outcome_of_a_transaction_whatever_its_function_catches"
_FLEETS = "tests/sim/transactions/test_fleet.py::test_a_full_disk_of_spilled_state_is_no_outcome_of_a_transaction"
_DISK = "tests/integration/transactions/test_spill_disk.py::"
_FORKED = _DISK + "test_a_process_that_a_trial_forks_reads_state_and_writes_none"

SPILLED_ROWS = (
    Mutant(
        "a disk that is full under a function's read is an outcome of its transaction",
        "transactional/state/partition.py",
        "        self.store.check()  # before",
        "        pass  # before",
        tests=(_FULL,),
    ),
    Mutant(
        "nobody hears of rows that could not be evicted while a function reads",
        "transactional/state/spilling.py",
        """.write(gone)
            except Exception as error:
                self._fails(error)
""",
        """.write(gone)
            except Exception:
""",
        tests=(_FLEETS,),
    ),
    Mutant(
        "a scan of a spill that fails is an outcome of its transaction",
        "transactional/state/spilling.py",
        """.scan(operator, prefix)
        except Exception as error:
            self._fails(error)
""",
        """.scan(operator, prefix)
        except Exception:
""",
        tests=(_FULL,),
    ),
    Mutant(
        "a process that a trial forks writes to the files of its parent's state",
        "nodes/transactions/checkpoints/spill.py",
        "        if self._forks != _Forks.count:\n",
        "        if False:\n",
        tests=(_FORKED,),
    ),
    Mutant(
        "a process that a trial forks reads what its parent had in the file",
        "nodes/transactions/checkpoints/spill.py",
        "        if self._aside and key in self._aside:\n",
        "        if False:\n",
        tests=(_FORKED,),
    ),
)
