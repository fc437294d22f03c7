"""What deploy/ and debian/ hold, judged by the tools that will read it. What is built is run: see support/fixtures.py."""

import pathlib
import re
import subprocess

import pytest

from support.fixtures import *  # noqa: F401,F403 pylint: disable=wildcard-import,unused-wildcard-import

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def deploy(root):
    return root / "deploy"


@pytest.fixture(scope="session")
def meters(root):
    """{name of a metric: its kind}, of the program's table."""
    text = (root / "src/model/meters.c").read_text()
    found = re.findall(r"=\s*(COUNTER|GAUGE|HISTOGRAM)\(\s*\"(\w+)\"", text)
    return {name: kind.lower() for kind, name in found}


@pytest.fixture(scope="session")
def checkout(root, tmp_path_factory):
    """The files git knows or would add, and nothing that a build has left."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=True).stdout
    target = tmp_path_factory.mktemp("checkout") / "inboxd"
    target.mkdir()
    files = [name for name in listed.split("\0") if name and (root / name).exists()]
    copy = subprocess.run(["cp", "-P", "--parents", "-t", target, *files], cwd=root, capture_output=True,
                          text=True, check=False)
    assert copy.returncode == 0, copy.stderr
    return target
