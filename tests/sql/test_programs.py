"""The store's C tests: one pytest test for each program; a failure shows the program's report."""

import os
import pathlib
import subprocess

import pytest

NAMES = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("test_store_*.c"))


@pytest.mark.parametrize("name", NAMES)
def test_store(server, programs, name):
    environment = {**os.environ, **server, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"}
    done = subprocess.run([programs / name], env=environment, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stdout + done.stderr
