"""How much memory is a process's own: what would be free if it ended, without mapped pages of the log and of state."""

from __future__ import annotations

from pathlib import Path

LOG_FILE = "data.mdb"
COLUMNS_FILE = "holon-columns-"
"""The beginning of the names of files that hold columns of state."""


def private_bytes(pid: int) -> int:
    """Private memory of a process in bytes. On Linux files of logs and columns are left out: they are the page cache's.

    (USS counts a file page that only one process has mapped, whoever's it is.) Elsewhere psutil's USS.
    Raises ``OSError`` where there is no such process.
    """
    smaps = Path(f"/proc/{pid}/smaps")
    if not smaps.exists():
        import psutil

        try:
            return psutil.Process(pid).memory_full_info().uss
        except psutil.Error as error:
            raise ProcessLookupError(str(error)) from error
    total, counts = 0, True
    with smaps.open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                counts = not line.rstrip().endswith(LOG_FILE) and f"/{COLUMNS_FILE}" not in line
            elif counts and name.startswith("Private_"):
                total += int(rest.split()[0]) * 1024
    return total
