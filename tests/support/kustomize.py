"""The output of kustomize for a directory: the installed one, kubectl's, or one built from its Go module."""

import shutil
import subprocess

from support import gomodule

# The last one that Debian 12's compiler builds.
MODULE = ("sigs.k8s.io/kustomize/kustomize/v4", "v4.5.7")


def command():
    """The words before the directory."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    return [str(gomodule.program("kustomize", *MODULE)), "build"]


def build(directory):
    done = subprocess.run([*command(), str(directory)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    print(*command())
