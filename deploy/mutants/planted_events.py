"""Bugs in how records become events (several Structs, Arrow, schemas of registries), and where values may be None."""

from __future__ import annotations

from deploy.mutants.model import Mutant

AVRO = ("tests/unit/holon/formats/test_avro.py",)
PROTOBUF = ("tests/unit/holon/formats/test_protobuf.py",)
AWAITED = ("tests/unit/nodes/streams/test_awaited_schemas.py",)
NONES = ("tests/unit/holon/dataflow/test_none.py",)
JUDGED = ("tests/unit/nodes/streams/test_judged_schemas.py",)
VERDICTS = ("tests/unit/nodes/machine/ownership/test_schemas.py",)
UNION_EVENTS = ("tests/unit/holon/formats/test_union_events.py", "tests/laws/test_drawn_columns.py")
ARROW_TYPES = ("tests/unit/holon/formats/test_arrow.py",)
ARROW_STRUCTS = ("tests/unit/holon/formats/test_arrow_structs.py",)
ARROW_LISTS = ("tests/unit/holon/formats/test_arrow_lists.py",)
ARROW_BATCHES = ("tests/unit/holon/formats/test_arrow_batches.py",)

FILLED = ("tests/laws/test_filled_columns.py", "tests/unit/holon/formats/test_batch.py")

EVENTS = (
    Mutant(
        "letters of one record have one number",
        "holon/tracks/side_outputs.py",
        "offsets, numbers = run.offsets[index].tolist(), _counted(index)",
        "offsets, numbers = run.offsets[index].tolist(), [0] * len(index)",
        tests=("tests/unit/holon/columnar/atoms/test_reader.py",),
    ),
    Mutant(
        "few rows of a buffer are copied from where the first one begins",
        "holon/columnar/payloads.py",
        "return [bytes(view[a:b]) for",
        "return [bytes(view[low:b]) for",
        tests=("tests/unit/holon/columnar/test_payloads.py",),
    ),
    Mutant(
        "a value in place of None replaces what a missing field has, too",
        "holon/columnar/structs/lazy.py",
        "others = np.flatnonzero((self._marks != PRESENT) & ~nones)",
        "others = np.flatnonzero((self._marks == NULL) & ~nones)",
        tests=FILLED,
    ),
    Mutant(
        "ints that are too large are no longer ints where None is filled",
        "holon/columnar/structs/lazy.py",
        "        except OverflowError:\n            return None\n        return found",
        "        except OverflowError:\n            found[others] = 0\n        return found",
        tests=FILLED,
    ),
    Mutant(
        "a value of another type replaces None",
        "holon/columnar/structs/lazy.py",
        "if nones is None or type(value) is not row_type(self._values):",
        "if nones is None:",
        tests=FILLED,
    ),
    Mutant(
        "the Struct of an event has no cell of its own",
        "holon/columnar/structs/tables.py",
        "return (bool(field.path) or field.slot == UNION) and not",
        "return bool(field.path) and not",
        tests=UNION_EVENTS,
    ),
    Mutant(
        "an event that msgspec reads is in the columns of each Struct",
        "holon/columnar/structs/plan.py",
        "return lambda value: value if type(value) is of else None",
        "return lambda value: value",
        tests=UNION_EVENTS,
    ),
    Mutant(
        "columns of one name hide each other",
        "holon/formats/json_columns.py",
        "len(kinds) < sum(one.has_column for one in planned)",
        "len(kinds) < 0",
        tests=UNION_EVENTS,
    ),
)

ARROW = (
    Mutant(
        "nanoseconds of a duration are rounded as those of a time are",
        "holon/columnar/atoms/types.py",
        "(halves_up | (numbers >= 0))",
        "True",
        tests=ARROW_TYPES,
    ),
    Mutant(
        "a null among the indices of a dictionary is its first value",
        "holon/columnar/atoms/types.py",
        "plain(array.dictionary).take(array.indices)",
        "plain(array.dictionary).take(array.indices.fill_null(0))",
        tests=ARROW_TYPES,
    ),
    Mutant(
        "an unsigned int beyond 64 bits becomes a negative one",
        "holon/columnar/atoms/types.py",
        "        return Adapted(array.cast(pa.int64(), safe=False), beyond, {})\n",
        "        return Adapted(array.cast(pa.int64(), safe=False), {}, {})\n",
        tests=ARROW_TYPES,
    ),
    Mutant(
        "a time keeps the zone of its column",
        "holon/columnar/atoms/types.py",
        "    zone = None if of.tz is None else _UTC\n",
        "    zone = of.tz\n",
        tests=ARROW_TYPES,
    ),
    Mutant(
        "a field of a struct that is null has the value that lies there",
        "holon/columnar/atoms/reader.py",
        "field_or_null(array, at) if nulls and array.buffers()[0] is not None else array.field(at)",
        "array.field(at)",
        tests=ARROW_BATCHES,
    ),
    Mutant(
        "a field in runs has the value that lies there where its struct is null",
        "holon/columnar/atoms/adapting.py",
        "return plain(checked(array.field(at))).take(rows)",
        "return plain(checked(array.field(at)))",
        tests=ARROW_STRUCTS,
    ),
    Mutant(
        "a Struct that is null has the objects of fields that are not",
        "holon/formats/arrow/plan.py",
        "marks[~column.valid] = NULL",
        "marks[:0] = NULL",
        tests=ARROW_STRUCTS,
    ),
    Mutant(
        "a struct in other columns of Arrow is a dead record",
        "holon/arrow.py",
        "            except NotInPlace as other:\n",
        "            except NotInPlace as other:\n                raise JobError('x') from other\n",
        tests=ARROW_STRUCTS,
    ),
    Mutant(
        "dictionaries may inflate to any size",
        "holon/columnar/atoms/inflation.py",
        "if kind not in (_DICTIONARY, _RECORDS):",
        "if kind != _RECORDS:",
        tests=("tests/unit/holon/columnar/atoms/test_inflation.py",),
    ),
    Mutant(
        "of several batches in a record the first alone is read",
        "holon/columnar/atoms/reader.py",
        "[_valid(batch) for batch in pa.ipc.open_stream(data)]",
        "[_valid(batch) for batch in pa.ipc.open_stream(data)][:1]",
        tests=ARROW_BATCHES,
    ),
    Mutant(
        "columns that msgspec makes are those of other rows behind a dead one",
        "holon/formats/arrow/plan.py",
        "np.searchsorted(rest, keep)",
        "np.arange(len(keep))",
        tests=("tests/unit/holon/formats/test_arrow_dead_rows.py",),
    ),
    Mutant(
        "a time that no datetime holds is the last one that it holds",
        "holon/columnar/atoms/lazy.py",
        "rows = np.flatnonzero(wrong if valid is None else wrong & valid).tolist()",
        "rows = []",
        tests=ARROW_TYPES,
    ),
    Mutant(
        "a decimal has the power of ten of the first record",
        "holon/columnar/atoms/columns.py",
        "*(part.scales for part in parts if part.scales is not None)",
        "*(np.full(part.height, parts[0].scales[0]) for part in parts if part.scales is not None)",
        tests=ARROW_BATCHES,
    ),
    Mutant(
        "lists of a second record have the items of the first",
        "holon/columnar/atoms/columns.py",
        "np.cumsum([0, *heights])",
        "np.cumsum([0, *(0 for _ in heights)])",
        tests=ARROW_BATCHES,
    ),
    Mutant(
        "an item of a list that does not fit is as if it did",
        "holon/formats/arrow/nested.py",
        "unfit = {row: wrong[item] for row, item in rows_with(wrong, starts, ends)}",
        "unfit = {}",
        tests=ARROW_LISTS,
    ),
    Mutant(
        "of two values of a key the last one is a map's",
        "holon/columnar/atoms/adapting.py",
        "twice = pairs[1:][pairs[1:] == pairs[:-1]]",
        "twice = pairs[:0]",
        tests=ARROW_LISTS,
    ),
    Mutant(
        "items that lie under a null list are those of a row",
        "holon/columnar/atoms/adapting.py",
        "(np.where(valid, starts, 0), np.where(valid, ends, 0))",
        "(starts, ends)",
        tests=ARROW_LISTS,
    ),
    Mutant(
        "views over the same items have one object for several rows",
        "holon/columnar/structs/columns.py",
        "if offsets[-1] != len(values) or bool((starts != offsets[:-1])[starts >= 0].any()):",
        "if offsets[-1] < len(values):",
        tests=ARROW_LISTS,
    ),
    Mutant(
        "one column in other types of Arrow leaves all of them to msgspec",
        "holon/arrow.py",
        "more = (by_msgspec or frozenset()) | {other.part}",
        "more = frozenset(name for name, _, _ in self.columns_read())",
        tests=ARROW_LISTS,
    ),
    Mutant(
        "few bytes may be values of any number",
        "holon/columnar/atoms/types.py",
        "    check_repetition(array)\n",
        "",
        tests=("tests/unit/holon/columnar/atoms/test_repetition.py",),
    ),
)

REGISTRIES = (
    Mutant(
        "a value of a shorter schema is read with bytes left",
        "holon/formats/avro/reading.py",
        "if source.tell() != len(payload):",
        "if False:",
        tests=AVRO,
    ),
    Mutant(
        "a recursive schema is read as deep as the bytes say",
        "holon/formats/avro/plan.py",
        "if name in self._open:",
        "if False:",
        tests=AVRO,
    ),
    Mutant(
        "schemas that a node has met change the job's fingerprint",
        "holon/formats/registry.py",
        'return "schemas of a registry"',
        'return f"schemas of a registry {sorted(self._found)}"',
        tests=AVRO,
    ),
    Mutant(
        "a message of another type is read as the declared one",
        "holon/formats/protobuf/reading.py",
        "if name != message.DESCRIPTOR.full_name:",
        "if False:",
        tests=PROTOBUF,
    ),
    Mutant(
        "a field that a message lacks hides the default of the type",
        "holon/formats/protobuf/reading.py",
        "if has_presence and not message.HasField(name):",
        "if False:",
        tests=PROTOBUF,
    ),
    Mutant(
        "records behind one whose schema is not known are read before it",
        "nodes/streams/io/awaited_schemas.py",
        "(offset, id), ids = blocked[0], {id for _, id in blocked}",
        "(offset, id), ids = blocked[-1], {id for _, id in blocked}",
        tests=AWAITED,
    ),
    Mutant(
        "a registry that is away holds up the partitions of all registries",
        "nodes/streams/io/awaited_schemas.py",
        "return partition in self._waiting",
        "return bool(self._waiting)",
        tests=AWAITED,
    ),
    Mutant(
        "a node acts by its registry's answer before it has read the verdict",
        "nodes/streams/io/awaited_schemas.py",
        "elif verdict and id in schemas:",
        "elif id in schemas:",
        tests=AWAITED,
    ),
    Mutant(
        "an answer that there is no schema holds for records that came after the request",
        "nodes/streams/io/awaited_schemas.py",
        "answered &= sent_for",
        "answered &= answered",
        tests=AWAITED,
    ),
    Mutant(
        "a registry that is behind overrules what other nodes have read there",
        "nodes/streams/io/awaited_schemas.py",
        "answered = {each for each in waiters if not verdicts.knows(self._source(each).number, id)}",
        "answered = set(waiters)",
        tests=AWAITED,
    ),
    Mutant(
        "a replay makes events of records that nodes have set aside",
        "nodes/streams/judged_schemas.py",
        "if verdict is False:",
        "if verdict is False and self._lacks(known, id):",
        tests=JUDGED,
    ),
    Mutant(
        "a replay says nothing of records that nodes may judge otherwise",
        "nodes/streams/judged_schemas.py",
        "self.undecided += 1",
        "pass",
        tests=JUDGED,
    ),
    Mutant(
        "a replay takes a dead record's place for another one's",
        "holon/testing.py",
        "{start + n: fed.refused for",
        "{n: fed.refused for",
        tests=JUDGED,
    ),
    Mutant(
        "a later verdict takes the place of an earlier one: the record is dead after all",
        "nodes/machine/ownership/schemas.py",
        "if before > self.end(partition):",
        "if before:",
        tests=VERDICTS,
    ),
    Mutant(
        "a schema that is registered later brings dead records back",
        "nodes/machine/ownership/schemas.py",
        "return number is not None and number < ends[at][1]",
        "return number is not None",
        tests=VERDICTS,
    ),
    Mutant(
        "a job that goes on behind the end of its input forgets which records were dead",
        "nodes/machine/ownership/ownership.py",
        "if started is None or m.CONTINUES not in started.description:",
        "if started is None or m.CONTINUES:",
        tests=VERDICTS,
    ),
    Mutant(
        "a job that goes on with other code forgets which records were dead",
        "nodes/machine/ownership/ownership.py",
        "            return [f.CodeAccepted(command.argument)]\n",
        "            self.schemas = SchemaFold()\n            return [f.CodeAccepted(command.argument)]\n",
        tests=VERDICTS,
    ),
    Mutant(
        "a record that is dead by its verdict is read where this node has the schema",
        "holon/tracks/admission.py",
        "payloads = [NO_VALUE if row in reasons else payload for row, payload in enumerate(payloads)]",
        "payloads = list(payloads)",
        tests=("tests/unit/holon/tracks/test_refused_records.py",),
    ),
    Mutant(
        "a format that knows no columns is handed columns",
        "holon/tracks/admission.py",
        "if isinstance(payloads, BinaryColumn) and not self._takes_columns:",
        "if False:",
        tests=("tests/unit/nodes/streams/test_inputs.py",),
    ),
    Mutant(
        "jobs whose records become objects never read Kafka directly",
        "nodes/streams/io/inputs.py",
        "return found and log.use_columns()",
        "return any(takes_columns(one.format) for one in job.sources) and log.use_columns()",
        tests=("tests/unit/nodes/streams/test_inputs.py",),
    ),
    Mutant(
        "a run that is cut forgets which of its records are dead",
        "holon/formats/input_run.py",
        "end, headers, passed, parts, self.refused)",
        "end, headers, passed, parts)",
        tests=("tests/unit/holon/tracks/test_refused_records.py",),
    ),
    Mutant(
        "keys of groups and values of folds are never None to a function that asks",
        "holon/dataflow/groups.py",
        "return None if self._path.asks_none and self._path.is_none(found) else self._kind(found, self._path)",
        "return self._kind(found, self._path)",
        tests=NONES,
    ),
    Mutant(
        "two folds of one lattice are None together",
        "holon/dataflow/groups.py",
        'return self._placed(kind, f"{kind} {list(self._found).index(asked)}")',
        "return self._placed(kind, kind)",
        tests=NONES,
    ),
    Mutant(
        "a function of groups that fails for None is called with rows of the source",
        "holon/dataflow/tracing.py",
        "if called is None or path.loops or not is_of_rows:",
        "if path.loops or not is_of_rows:",
        tests=NONES,
    ),
    Mutant(
        "an item of a group's value is never None to a function that asks",
        "holon/dataflow/groups.py",
        "return None if asked else self._holon_further(name)",
        "return self._holon_further(name)",
        tests=NONES,
    ),
)
