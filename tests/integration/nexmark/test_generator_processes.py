"""The generator in another process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.unit.nexmark.test_generator import GOLDEN


def test_another_process_with_another_hash_seed_makes_the_same_bytes() -> None:
    script = (
        "import hashlib; from nexmark.generator import *;"
        "records = encode_json(generate_slice(GeneratorConfig(seed=42), 0, 20_000));"
        "print(hashlib.blake2b(b'\\n'.join(records), digest_size=16).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == GOLDEN
