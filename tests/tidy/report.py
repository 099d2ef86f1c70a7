"""All rules, and how to apply them to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.tidy import machines, messages, order, purity, sentences, shape, testing, words
from tests.tidy.source import Source, Violation

RULES: tuple[Callable[[Source], Iterator[Violation]], ...] = (
    purity.no_impure_import,
    purity.no_impure_call,
    order.no_set_order,
    machines.no_write_past_step,
    shape.short_file,
    shape.short_functions,
    shape.has_docstrings,
    shape.no_broad_except,
    shape.no_code_in_data,
    shape.no_print,
    testing.has_assertion,
    testing.no_private_access,
    testing.no_sleep_in_tests,
    words.no_undone,
    words.no_old_name,
    sentences.no_relative_subject,
    sentences.no_long_sentence,
    messages.field_verbs,
    words.no_machine_path,
    words.no_registry,
)


def check(source: Source) -> list[Violation]:
    """Every violation in one file. A file that does not parse is one violation."""
    if source.is_python:
        try:
            source.tree  # noqa: B018 (parses, and keeps the result)
        except SyntaxError as error:
            return [Violation(source.path, error.lineno or 1, "parses", error.msg)]
    return [violation for rule in RULES for violation in rule(source)]
