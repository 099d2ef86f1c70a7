"""Bugs in what first programs use: times by a form, durations, parts of texts, matches, dicts, and caught errors."""

from __future__ import annotations

from deploy.mutants.model import Mutant

TIMES = ("tests/unit/holon/dataflow/test_time_columns.py",)
PARTS = ("tests/unit/holon/dataflow/test_followed_parts.py",)
CAUGHT = ("tests/unit/holon/dataflow/test_attempts.py",)
FOLLOWING = "holon/dataflow/following"
FORMS = f"{FOLLOWING}/time_columns/forms.py"
MADE = f"{FOLLOWING}/time_columns/made.py"
OPERATORS = f"{FOLLOWING}/time_columns/operators.py"
OF_TIMES = f"{FOLLOWING}/time_columns/attributes.py"
SEPARATED = f"{FOLLOWING}/separated.py"
MATCHES = f"{FOLLOWING}/matches.py"
ATTEMPTS = f"{FOLLOWING}/attempts.py"
PATH = f"{FOLLOWING}/path.py"
PLACEHOLDERS = f"{FOLLOWING}/placeholders.py"
COLUMNS = "holon/columnar/structs/times.py"

FIRST_PROGRAMS = (
    Mutant(
        "a month may have any day up to 31",
        FORMS,
        "    if bool((days > lengths.astype(np.int64)).any()):\n        return None\n",
        "",
        tests=TIMES,
    ),
    Mutant(
        "digits may follow a fraction of a second",
        FORMS,
        '        if "f" in parts and _goes_on(parts[parts.index("f") + 1 :]):\n            return None\n',
        "",
        tests=TIMES,
    ),
    Mutant(
        "zones west of Greenwich are east of it",
        FORMS,
        'return np.where(signs == ord("-"), -found, found)',
        "return found",
        tests=TIMES,
    ),
    Mutant(
        "letters between the fields of a form may be any",
        FORMS,
        "return starts if bool((buffer[starts] == ord(part[1])).all()) else None",
        "return starts",
        tests=TIMES,
    ),
    Mutant(
        "fractions of a second are whole microseconds",
        FORMS,
        "found * 10 ** (6 - width)",
        "found",
        tests=TIMES,
    ),
    Mutant(
        "microseconds of a timestamp are cut off",
        MADE,
        "np.rint(parts * SECOND)",
        "np.trunc(parts * SECOND)",
        tests=TIMES,
    ),
    Mutant(
        "seconds beyond all years are times",
        MADE,
        "        if not bool((np.abs(seconds) < _FARTHEST_S).all())",
        "        if False and not bool((np.abs(seconds) < _FARTHEST_S).all())",
        tests=TIMES,
    ),
    Mutant(
        "each zone without an offset is UTC",
        MADE,
        "if self._zone is not UTC or",
        "if self._zone is None or",
        tests=TIMES,
    ),
    Mutant(
        "a text of a time is one within an hour, whatever its form",
        OF_TIMES,
        "if letters <= known), SECOND)",
        "if letters <= known), 3600 * SECOND)",
        tests=TIMES,
    ),
    Mutant(
        "microseconds in a form are those of the second",
        OF_TIMES,
        ' or "%f" in others[0]:',
        ":",
        tests=TIMES,
    ),
    Mutant(
        "units of several zones are one",
        COLUMNS,
        "if not len(self._micros) or bool((self._zones != self._zones[0]).any()):",
        "if not len(self._micros):",
        tests=TIMES,
    ),
    Mutant(
        "times without a zone are compared with those of UTC",
        OPERATORS,
        "return found if len(set(are_local)) == 1 else None",
        "return found",
        tests=TIMES,
    ),
    Mutant(
        "times beyond all years are there",
        OPERATORS,
        "        if int(days.min()) < _FIRST_DAY or int(days.max()) > _LAST_DAY:\n            return None\n",
        "",
        tests=TIMES,
    ),
    Mutant(
        "what stands on two ways is evaluated for each",
        PATH,
        "return self._interned.setdefault((key_of(function), *map(key_of, arguments)), made)",
        "return made",
        tests=TIMES,
    ),
    Mutant(
        "what is known of all rows is evaluated again for some",
        "holon/dataflow/expressions.py",
        "        taken.known = KnownAbove(rows.known, index)\n",
        "",
        tests=TIMES,
    ),
    Mutant(
        "separators go over the end of a text",
        SEPARATED,
        "texts.ends - (len(wanted) - 1)",
        "texts.ends",
        tests=PARTS,
    ),
    Mutant(
        "separators may overlap themselves",
        SEPARATED,
        " or wanted[:1] in wanted[1:]",
        "",
        tests=PARTS,
    ),
    Mutant(
        "a text without a separator is the last part of partition",
        SEPARATED,
        "        else:\n            after.starts = np.where(has, after.starts, nothing)\n",
        "",
        tests=PARTS,
    ),
    Mutant(
        "a place behind the parts of a text is its last part",
        SEPARATED,
        "        if bool(((places < 0) | (places > self._number)).any()):\n            return None\n",
        "",
        tests=PARTS,
    ),
    Mutant(
        "all parts are there, however many names take them",
        SEPARATED,
        "bool((column.lengths() == self._number).all())",
        "True",
        tests=PARTS,
    ),
    Mutant(
        "groups of rows without a match are None",
        MATCHES,
        "return self._groups[group] if bool(self.there.all()) and group in self._groups else None",
        "return self._groups.get(group)",
        tests=PARTS,
    ),
    Mutant(
        "a match that is missing raises what its method raises, for an item too",
        MATCHES,
        '        if self._way == "item":\n            return match[self._group]\n',
        "",
        tests=PARTS,
    ),
    Mutant(
        "groups are never None",
        "holon/dataflow/following/parts.py",
        "found = [type(self._owner)(one, path)._holon_maybe_none(None) for one in made]",
        "found = [type(self._owner)(one, path) for one in made]",
        tests=PARTS,
    ),
    Mutant(
        "what a dict of a field does not have is never None",
        PLACEHOLDERS,
        "return made._holon_maybe_none(kind if is_there else None, is_there)",
        "return made",
        tests=PARTS,
    ),
    Mutant(
        "slices may have fields as their ends",
        PLACEHOLDERS,
        " or (type(item) is slice and any(map(holds, (item.start, item.stop, item.step)))):",
        ":",
        tests=PARTS,
    ),
    Mutant(
        "all functions of math take whatever they are given",
        f"{FOLLOWING}/calls.py",
        "        if not any(found is one for one in OF_MATH):\n",
        "        if False:\n",
        tests=PARTS,
    ),
    Mutant(
        "texts of any letters are Unicode",
        "holon/columnar/payloads.py",
        'encoded, are_unicode = [value.encode("utf-8", "surrogatepass") for value in values], False',
        'encoded, are_unicode = [value.encode("utf-8", "surrogatepass") for value in values], True',
        tests=PARTS,
    ),
    Mutant(
        "nobody knows whether formatted texts are Unicode",
        f"{FOLLOWING}/formats.py",
        "all(map(_is_unicode, parts))",
        "False",
        tests=PARTS,
    ),
    Mutant(
        "elements that are texts are checked one by one",
        "holon/dataflow/record_functions/effects.py",
        "return packed(elements) if isinstance(elements, list) else elements",
        "return elements",
        tests=PARTS,
    ),
    Mutant(
        "a clause may name any class",
        ATTEMPTS,
        '    if step.opname == "LOAD_GLOBAL" and not any(resolve(step.argval) is one for one in CAUGHT):\n',
        "    if False:\n",
        tests=CAUGHT,
    ),
    Mutant(
        "a clause may read the exception",
        ATTEMPTS,
        'if steps[number + 2].opname != "POP_TOP":',
        "if False:",
        tests=CAUGHT,
    ),
    Mutant(
        "each error is one of a value",
        ATTEMPTS,
        "return next(one for one in CAUGHT if isinstance(error, one))",
        "return ValueError",
        tests=CAUGHT,
    ),
    Mutant(
        "errors within a clause go to the same clause",
        ATTEMPTS,
        "return again is None or _is_caught(regions, again)",
        "return True",
        tests=CAUGHT,
    ),
    Mutant(
        "functions that are called within try raise as elsewhere",
        ATTEMPTS,
        "        frame = frame.f_back\n    return False",
        "        return False\n    return False",
        tests=CAUGHT,
    ),
    Mutant(
        "inserts within try are noted",
        "holon/dataflow/record_functions/stand_ins.py",
        '        self._path.refuse_within_try("inserts")\n',
        "",
        tests=CAUGHT,
    ),
    Mutant(
        "texts are formatted within try",
        PATH,
        '        self.refuse_within_try("formats a text")\n',
        "",
        tests=CAUGHT,
    ),
    Mutant(
        "clauses never see a formatted text",
        f"{FOLLOWING}/whole_texts.py",
        "                waiting += self._caught(state)\n",
        "",
        tests=CAUGHT,
    ),
    Mutant(
        "a reason has the first line of the function that is followed",
        "holon/dataflow/tracing.py",
        '            error.place = ""  # that function has called others\n',
        "",
        tests=PARTS,
    ),
    Mutant(
        "an error that no clause catches is a refusal of the function",
        "holon/dataflow/tracing.py",
        "path.has_none or path.has_raised or",
        "path.has_none or",
        tests=CAUGHT,
    ),
)
