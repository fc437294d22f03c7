"""Tests of deploy/ and debian/ with the tools that read these files. Built programs are run: see support/fixtures.py."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from deploy.terminal import Terminal
from deploy.tools import call
from support.librdkafka import shipped
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
    text = (root / "src/report/meters.c").read_text()
    found = re.findall(r"=\s*(COUNTER|GAUGE|HISTOGRAM)\(\s*\"(\w+)\"", text)
    return {name: kind.lower() for kind, name in found}


@pytest.fixture(scope="session")
def checkout(root, tmp_path_factory):
    """A copy of the files that git knows or would add, without build products."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=True).stdout
    target = tmp_path_factory.mktemp("checkout") / "inboxd"
    target.mkdir()
    files = [name for name in listed.split("\0") if name and (root / name).exists()]
    copy = subprocess.run(["cp", "-P", "--parents", "-t", target, *files], cwd=root, capture_output=True,
                          text=True, check=False)
    assert copy.returncode == 0, copy.stderr
    return target


@pytest.fixture(scope="session")
def librdkafka():
    """The directory of the static library, built once into the cache by the script that the image and the packages call."""
    return shipped()


@pytest.fixture(scope="session")
def shipped_version(deploy):
    return re.search(r"^version (\S+)$", (deploy / "librdkafka/sources").read_text(), re.M)[1]


@pytest.fixture(scope="session")
def packages(checkout, librdkafka, tmp_path_factory):
    """{name: file} of the packages that dpkg-buildpackage builds from a clean tree."""
    place = tmp_path_factory.mktemp("debian")
    shutil.copytree(checkout, place / "inboxd", symlinks=True)
    call("dpkg-buildpackage", "-us", "-uc", "-b", "-j2", cwd=place / "inboxd",
         env={**os.environ, "DEB_BUILD_OPTIONS": "noautodbgsym parallel=2", "LIBRDKAFKA": str(librdkafka)})
    return {path.name.partition("_")[0]: path for path in place.glob("*.deb")}


@pytest.fixture(scope="session")
def installed(packages, tmp_path_factory):
    """A root directory in which dpkg has installed and configured them. Their dependencies are those of the machine."""
    target = tmp_path_factory.mktemp("root")
    for directory in ("etc", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (target / directory).mkdir(parents=True)
    (target / "var/lib/dpkg/status").touch()
    command = ["dpkg", f"--root={target}", "--force-depends", "--force-script-chrootless", "--force-not-root",
               f"--log={target}/dpkg.log", "--install", *map(str, packages.values())]
    call(*(command if os.geteuid() == 0 else ["sudo", "-n", *command]))
    return target


@pytest.fixture
def terminal(root, tmp_path):
    made = []

    def open_one(*command):
        made.append(Terminal(tmp_path, *command, cwd=root))
        return made[-1]

    yield open_one
    for one in reversed(made):
        one.close()
