"""Bugs in what is noticed of changed programs (code, types of state, nodes beside each other), and of seeds."""

from __future__ import annotations

from deploy.mutants.model import Mutant

REACH = "tests/unit/holon/fingerprint/test_reach.py::"
FITTING = "tests/unit/holon/fingerprint/test_fitting.py::"
RULE = "tests/unit/nodes/machine/ownership/test_code_rule.py::"
DRIFT = "tests/unit/nodes/machine/test_partition_drift.py::"
DIALOGUES = "tests/unit/nodes/machine/test_ownership_dialogues.py::"

UPGRADES = "tests/unit/nodes/transactions/upgrades/"

BEST = ("tests/unit/wcrdt/test_lattices_best.py",)

CODE = (
    Mutant(
        "LMDB makes the lock file of a new partition, with holes",
        "nodes/log/embedded/folder.py",
        '    create_lock_file(folder / "lock.mdb")  # LMDB maps',
        "    # LMDB maps",
        tests=("tests/unit/nodes/log/embedded/test_lock_files.py",),
    ),
    Mutant(
        "a version of a program has modules of its own of Python's without a file",
        "nodes/transactions/upgrades/versioned_modules.py",
        "    file = spec.origin if spec.has_location else None  #",
        "    file = spec.origin  #",
        tests=(UPGRADES + "test_versioned_modules.py",),
    ),
    Mutant(
        "a program that never held fits a job that has gone on with another one",
        "nodes/transactions/diagnosis.py",
        "        if not has_been:\n",
        "        if False:\n",
        tests=(UPGRADES + "test_diagnosis.py",),
    ),
    Mutant(
        "a node of a bounded run reads on before it knows of the end",
        "nodes/machine/workload.py",
        "            if end is None and self.config.until:\n",
        "            if False:\n",
        tests=(
            DRIFT
            + "test_a_node_reads_no_further_than_the_end_that_its_fleet_will_declare_until_it_knows_the_declared_one",
        ),
    ),
    Mutant(
        "a node joins with code that the job has left behind",
        "nodes/machine/node.py",
        "self._leave_to_other_code()  # which was",
        "pass  # which was",
        tests=(DIALOGUES + "test_code_that_is_accepted_while_a_node_is_no_member_is_not_missed",),
    ),
    Mutant(
        "what a function names in its module is no part of its code",
        "holon/fingerprint/reach.py",
        "        lines += self._globals(function)\n",
        "",
        tests=(REACH + "test_so_are_functions_and_constants_of_imported_modules",),
    ),
    Mutant(
        "defaults and options of types are no part of the code",
        "holon/fingerprint/values.py",
        "        yield from self._fields(kind)\n",
        "",
        tests=(REACH + "test_what_a_function_reaches_is_part_of_it_and_named",),
    ),
    Mutant(
        "elements of a set count in the order of their hashes",
        "holon/fingerprint/bytecode.py",
        'return f"frozenset {sorted(constant_text(each) for each in constant)}"',
        'return f"frozenset {[constant_text(each) for each in constant]}"',
        tests=(
            "tests/integration/holon/test_fingerprint_processes.py::"
            "test_it_is_equal_in_every_process_whatever_the_hash_seed",
        ),
    ),
    Mutant(
        "a field that has gone fits",
        "holon/fingerprint/fitting.py",
        "        if name not in after:\n",
        "        if name not in after and new.closed:\n",
        tests=(FITTING + "test_each_change_of_a_type_is_judged_by_what_becomes_of_stored_values",),
    ),
    Mutant(
        "a node goes on when the job has gone on with other code",
        "nodes/machine/ownership/claims.py",
        "            self._rule.check_member(self.ownership)\n",
        "            pass\n",
        tests=(RULE + "test_a_node_that_stood_still_meanwhile_leaves_when_it_reads_on",),
    ),
    Mutant(
        "accepted code may have other types of state than its neighbours'",
        "nodes/machine/ownership/code_rule.py",
        "if living and not (self.accept and alike):",
        "if living and not self.accept:",
        tests=(RULE + "test_nodes_whose_states_have_other_types_never_work_side_by_side",),
    ),
    Mutant(
        "a checkpoint of the control topic forgets which code was accepted",
        "nodes/machine/ownership/ownership.py",
        "        self.codes = list(state.codes) or self.codes\n",
        "",
        tests=(RULE + "test_versions_outlive_a_checkpoint_of_the_control_topic",),
    ),
    Mutant(
        "members that were killed keep other code out for ever",
        "nodes/machine/ownership/claims.py",
        "        living = [node for node in self.member.live(now_ms) if node != self.node]\n",
        "        living = [node for node in self.ownership.members if node != self.node]\n",
        tests=(RULE + "test_other_code_goes_on_when_no_other_node_is_there",),
    ),
)

LARGEST = (
    Mutant(
        "two bools of columns give an int for &",
        "holon/dataflow/arithmetic.py",
        '        if kinds == ["b", "b"]:\n',
        "        if not kinds:\n",
        tests=("tests/unit/holon/dataflow/test_arithmetic.py::test_operators_of_bits",),
    ),
    Mutant(
        "a constant bool of & is taken for an int",
        "holon/dataflow/arithmetic.py",
        '        if "b" in kinds and not all(',
        "        if not kinds and not all(",
        tests=("tests/unit/holon/dataflow/test_arithmetic.py::test_operators_of_bits",),
    ),
    Mutant(
        "a larger key joins what came with the smaller one",
        "wcrdt/lattices/of_largest.py",
        "            self._key, self._inner = other._key, other._inner.copy()",
        "            self._key, _ = other._key, self._inner.merge(other._inner)",
        tests=BEST,
    ),
    Mutant(
        "texts of rows that are not the largest are taken unseen",
        "wcrdt/lattices/of_largest.py",
        "            check_all_texts(keys) if keys is not None else None",
        "            pass",
        tests=BEST,
    ),
    Mutant(
        "texts of selected rows are taken unseen",
        "wcrdt/lattices/columns.py",
        "return utf8 is not None and utf8()[3:] == (True,)",
        "return utf8 is not None",
        tests=BEST,
    ),
    Mutant(
        "selected rows are taken as if all were selected",
        "wcrdt/lattices/columns.py",
        "return take(self.base, self.index[rows])",
        "return take(self.base, rows)",
        tests=BEST,
    ),
    Mutant(
        "rows of which only the last window is open are inserted at once",
        "holon/program/scope.py",
        "ts_ms, self.replica.lateness_ms, 0):\n            return False",
        "ts_ms, self.replica.lateness_ms, -1):\n            return False",
        tests=("tests/unit/holon/dataflow/test_late.py",),
    ),
    Mutant(
        "texts of other alphabets are taken for ASCII",
        "wcrdt/lattices/keyed/spans.py",
        ".max(initial=0)) < 0x80",
        ".max(initial=0)) <= 0xFF",
        tests=BEST,
    ),
)

_VERSIONS = "tests/unit/transactional/test_program_versions.py"
_UPGRADES = "tests/unit/nodes/machine/ownership/test_programs.py"
_PROGRAMS = "tests/sim/transactions/test_transactions.py"

VERSIONS = (
    Mutant(
        "version: a cut under another version counts",
        "transactional/epochs/ledger.py",
        ".number, self.versions.number(cut.epoch))",
        ".number, cut.program)",
        (_VERSIONS,),
    ),
    Mutant(
        "version: the last of its number wins",
        "transactional/program_versions.py",
        "if program.number != self.newest.number + 1 or",
        "if program.number not in (self.newest.number, self.newest.number + 1) or",
        (_VERSIONS,),
    ),
    Mutant(
        "version: it holds in an epoch that is cut already",
        "transactional/epochs/ledger.py",
        "self.versions.add(self.last_cut + 1, ",
        "self.versions.add(self.last_cut, ",
        (_VERSIONS,),
    ),
    Mutant(
        "version: requests that were read early keep the judgement of the one before",
        "transactional/epochs/sequencer.py",
        "if any(not _judged_alike(each, versions.judge(self.number, each.offset)) for each in early):",
        "if False:",
        (_VERSIONS,),
    ),
    Mutant(
        "version: all that was read early is judged by the first of several",
        "transactional/epochs/sequencer.py",
        "versions.judge(self.number, each.offset)) for",
        "versions.judge(self.number, start)) for",
        (_VERSIONS,),
    ),
    Mutant(
        "version: reruns have the program that the node was started with",
        "transactional/epochs/ledger.py",
        "program = self.versions.program(number)",
        "program = self.program",
        (_PROGRAMS,),
    ),
    Mutant(
        "version: a sequencer that is behind is judged by the new version at once",
        "transactional/program_versions.py",
        "cut_to[each] if next_cut[each] == since else None",
        "cut_to[each]",
        (_VERSIONS,),
    ),
    Mutant(
        "version: checkpoints forget the versions",
        "transactional/epochs/ledger.py",
        "VersionHistory(sequencers, made.versions.programs, state.programs)",
        "VersionHistory(sequencers, made.versions.programs)",
        (_VERSIONS,),
    ),
    Mutant(
        "version: a value is written without the version that writes it",
        "transactional/context.py",
        "head + data if head else data",
        "data",
        (_VERSIONS,),
    ),
    Mutant(
        "version: a value of its own version is upgraded",
        "transactional/state/versioned_values.py",
        "if upgrade is None or written_by == version:",
        "if upgrade is None:",
        (_VERSIONS,),
    ),
    Mutant(
        "upgrade: a node that cannot have the program does not prevent it",
        "nodes/machine/ownership/programs.py",
        "if loading.error and not self.ready:",
        "if False:",
        (_UPGRADES,),
    ),
    Mutant(
        "upgrade: a refusal counts although it is too late",
        "nodes/machine/ownership/programs.py",
        "if loading.error and not self.ready:",
        "if loading.error:",
        (_UPGRADES,),
    ),
    Mutant(
        "upgrade: of two that are proposed at once the second one counts",
        "nodes/machine/ownership/programs.py",
        """        if self.proposal is not None:
            self._over""",
        """        if False:
            self._over""",
        (_UPGRADES,),
    ),
)

_DETERMINISM = "tests/sim/transactions/test_determinism.py::test_seeds_that_once_differed_are_the_same_in_two_processes"
_CLIENT = "tests/unit/nodes/transactions/clients/test_client.py::test_new_partitions_are_found_by_the_clients_clock"
_RIVALS = "tests/sim/transactions/test_fleet.py::test_of_two_commands_at_once_the_first_of_its_number_counts"
_MAY_BE_NEXT = "        if made is None or made.number != self.number + 1 or self.open is not None:\n"

SIMULATED = (
    Mutant(
        "a layout that is requested while another one is under way takes its place",
        "nodes/machine/ownership/layouts.py",
        _MAY_BE_NEXT,
        "        if made is None or made.number != self.number + 1:\n",
        tests=(_RIVALS,),
    ),
    Mutant(
        "a layout may be requested under the number of one that is done",
        "nodes/machine/ownership/layouts.py",
        _MAY_BE_NEXT,
        "        if made is None or self.open is not None:\n",
        tests=(_RIVALS,),
    ),
    Mutant(
        "checkpoints hold moved keys in the order of a set",
        "transactional/state/moving.py",
        "            self._leaving.keys = {to: list(keys) for to, keys in moving.keys.items()}\n",
        "            self._leaving.keys = {to: list(set(keys)) for to, keys in moving.keys.items()}\n",
        tests=(_DETERMINISM,),
    ),
    Mutant(
        "a client looks for new partitions of replies by the machine's clock",
        "nodes/transactions/clients/client.py",
        "        now_s = self._clock_s()\n",
        "        now_s = time.perf_counter()\n",
        tests=(_CLIENT,),
    ),
    Mutant(
        "the place from which ids count is known for so long by the machine's clock",
        "nodes/transactions/clients/request_ids.py",
        "        now_s = self.clock_s()\n",
        "        now_s = time.perf_counter()\n",
        tests=(_DETERMINISM,),
    ),
    Mutant(
        "a command that accepts other code has another id than it was given",
        "nodes/streams/jobs.py",
        "_command(run, CODE, job.program.version.encode(), command_id)",
        "_command(run, CODE, job.program.version.encode())",
        tests=(_DETERMINISM,),
    ),
)
