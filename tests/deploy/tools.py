"""Calls of the tools that check and build."""

import subprocess


def call(*command, expected=0, **options):
    """The output of a command that must end with that code."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=850, check=False, **options)
    assert done.returncode == expected, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout
