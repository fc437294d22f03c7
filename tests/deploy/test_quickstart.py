"""Parts of the quickstart; a separate suite runs all of it."""

import os
import subprocess
import time


def sourced(root, script, **env):
    """Runs a script with the quickstart's functions."""
    return subprocess.run(["bash", "-c", f'source "{root}/deploy/quickstart.sh"; {script}'], capture_output=True,
                          text=True, timeout=60, check=False, env={**os.environ, **env})


def test_environment_variables_of_another_inboxd_are_removed(root):
    done = sourced(root, "env", INBOXD_SOCKET_PATH="/nonexistent/x", INBOXD_CONFIG="/nonexistent/y")
    assert "PATH=" in done.stdout and "/nonexistent" not in done.stdout


def test_waiting_ends_when_the_process_ends(root, tmp_path):
    began = time.monotonic()
    done = sourced(root, f"dir={tmp_path}; start dud sh -c 'echo why; exit 3'; wait_for dud 50 false")
    assert done.returncode == 1 and "dud has ended; its log:\nwhy\n" in done.stderr
    assert time.monotonic() - began < 20


def test_a_slow_start_is_reported(root, tmp_path):
    done = sourced(root, f"dir={tmp_path}; trap 'kill \"${{pids[@]}}\"' EXIT; start slow sleep 50; wait_for slow 1 false")
    assert done.returncode == 1 and "slow did not start in time" in done.stderr
