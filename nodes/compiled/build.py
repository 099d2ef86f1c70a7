"""``python -m nodes.compiled.build FILE``: compile the loops, try them in another process, put them there."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

from nodes.compiled.loading import NAMES, load, packed, write
from nodes.python_process import module_command

TRY = "--try"
CANDIDATE = ".candidate"


def main(arguments: list[str]) -> int:
    """The exit code: 0 if the file is there and works."""
    if arguments[0] == TRY:
        return 0 if _works(Path(arguments[1])) else 1
    path = Path(arguments[0])
    candidate = path.with_suffix(CANDIDATE)
    write(candidate, packed({name: _compiled(name) for name in NAMES}))
    # Code that lacks a symbol would end the process that loads it: so another one does that first.
    command = module_command("nodes.compiled.build", TRY, str(candidate))
    done = subprocess.run(command, check=False)
    if done.returncode == 0:
        candidate.replace(path)
    else:
        candidate.unlink()
    return done.returncode


def _compiled(name: str) -> tuple[str, bytes]:
    """Symbol and object code of one function, without what would make it callable from Python."""
    import llvmlite.binding as llvm
    from numba.core import compiler, types
    from numba.core.registry import cpu_target

    module_name, count = NAMES[name]
    function: Any = getattr(importlib.import_module(module_name), name).py_func
    assert len(inspect.signature(function).parameters) == count, f"{name} takes other than {count} arguments"
    flags: Any = compiler.Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    typing: Any = cpu_target.typing_context
    target: Any = cpu_target.target_context
    typing.refresh()
    target.refresh()
    result = compiler.compile_extra(typing, target, function, (types.int64,) * count, types.int64, flags, {})
    module = llvm.parse_assembly(result.library.get_llvm_str())
    needed = [one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")]
    if needed:
        raise SystemExit(f"{name} needs {', '.join(needed)} from outside")
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static",  # with absolute addresses: code that goes through a table of offsets breaks where
        codemodel="large",  # several objects are loaded
    )
    return result.fndesc.llvm_func_name, machine.emit_object(module)


def _works(path: Path) -> bool:
    """Whether what was compiled loads here, and reads and writes a record as it should."""
    from holon.columnar.encoding import FEW, encode_rows
    from holon.columnar.loops import install
    from holon.columnar.payloads import BinaryColumn
    from holon.columnar.projection import Projector

    loops = load(path)
    if loops is None:
        return False
    install(loops)
    rows = 2 * FEW
    record = b'{"n":-12,"t":"some text of more than sixteen bytes","at":"2024-02-29 01:02:03.5"}'
    fields = [(("n",), "n", "int"), (("t",), "t", "text"), (("at",), "at", "time")]
    found = Projector(loops, {0: fields}).project(BinaryColumn.of([record] * rows))  # type: ignore[dict-item]
    written = encode_rows({"n": found.integers["n"], "t": found.texts["t"]}, rows)
    times = found.integers["at"].tolist()
    return list(written) == [record[: record.index(b',"at"')] + b"}"] * rows and times == [1_709_168_523_500] * rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
