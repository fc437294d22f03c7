"""Helm: the machine's own, or one built from its Go module."""

import os
import shutil
import subprocess

from support import gomodule

# The last one that Ubuntu 22.04's compiler builds.
MODULE = ("helm.sh/helm/v3/cmd/helm", "v3.11.3")


def path():
    return shutil.which("helm") or str(gomodule.program("helm", *MODULE))


def run(*arguments):
    """Returns a CompletedProcess. Uses no cluster and reads no file of the user."""
    nowhere = {name: os.devnull for name in ("KUBECONFIG", "HELM_REPOSITORY_CONFIG", "HELM_REGISTRY_CONFIG")}
    return subprocess.run([path(), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **nowhere})


if __name__ == "__main__":
    print(path())
