"""Programs of Go modules, built once into the cache. Needs a Go compiler of version 1.18 or later; tests/run.sh installs one."""

import os
import shutil
import subprocess
import sys
import tempfile

from support.maven import cache
from support.process import StartFailed

BUILD_SECONDS = 900


def program(name, package, version):
    """The path of the program `name` of this version, built from `package` if the cache does not have it."""
    target = cache() / f"{name}-{version.removeprefix('v')}"
    if not target.is_dir():
        _build(target, f"{package}@{version}")
    return target / name


def _build(target, module):
    if not shutil.which("go"):
        raise StartFailed(f"Go is needed to build {module}; tests/run.sh installs it")
    print(f"building {module}, once", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = tempfile.mkdtemp(prefix="part-", dir=target.parent)
    try:
        done = subprocess.run(["go", "install", module], capture_output=True, text=True, timeout=BUILD_SECONDS,
                              check=False, env={**os.environ, "GOBIN": part, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"})
        if done.returncode != 0:
            raise StartFailed(f"building {module} failed:\n{done.stderr[-2000:]}")
        os.chmod(part, 0o755)
        os.rename(part, target)  # last: a cache directory is complete or absent
    except OSError:
        if not target.is_dir():
            raise
        # another process was first
    finally:
        shutil.rmtree(part, ignore_errors=True)
