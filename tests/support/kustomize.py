"""What kustomize makes of a directory: the machine's own, kubectl's, or one built from its Go module into the cache."""

import os
import shutil
import subprocess

from support.maven import cache
from support.process import StartFailed

# The last one that Debian 12's compiler builds.
MODULE = "sigs.k8s.io/kustomize/kustomize/v4@v4.5.7"


def command():
    """The words before the directory."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    built = cache() / "kustomize" / "kustomize"
    if not built.exists():
        _build(built.parent)
    return [str(built), "build"]


def build(directory):
    done = subprocess.run([*command(), str(directory)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _build(target):
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["go", "install", MODULE], capture_output=True, text=True, timeout=900, check=False,
                          env={**os.environ, "GOBIN": str(target), "GOFLAGS": "-mod=mod"})
    if done.returncode != 0:
        raise StartFailed(f"building kustomize failed:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    print(*command())
