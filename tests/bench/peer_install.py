"""Programs to compare with, from their registries: each is fetched and built once, into the cache."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from support import maven

HERE = pathlib.Path(__file__).resolve().parent / "peers"
TIMEOUT = 600


class NotHere(Exception):
    """It cannot be installed on this machine; the message has the reason."""


def go():
    """The program of peers/go."""
    return _once("go", _build_go) / "peer"


def node():
    """A directory with peers/node and its node_modules."""
    return _once("node", _build_node)


def java():
    """A directory with the classes of peers/java and the jars they need."""
    return _once("java", _build_java)


def connect():
    """A directory with the jars of Kafka Connect and the sink."""
    return _once("connect", _fetch_jars)


def debezium():
    """A directory with the jars of Kafka Connect and Debezium's connector for PostgreSQL."""
    return _once("debezium", _fetch_jars)


def _once(name, build):
    """The result of `build` for peers/NAME; built again when a file there has changed."""
    sources = sorted(path for path in (HERE / name).iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    target = maven.cache() / "peers" / f"{name}-{digest}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = pathlib.Path(tempfile.mkdtemp(prefix="part-", dir=target.parent))
        try:
            for path in sources:
                shutil.copy(path, part)
            build(part)
            part.rename(target)  # last: a cache directory is complete or absent
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return target


def _build_go(directory):
    _run(directory, "go", "build", "-o", "peer", ".")


def _build_node(directory):
    _run(directory, "npm", "ci", "--no-audit", "--no-fund")


def _build_java(directory):
    _fetch_jars(directory)
    _run(directory, "javac", "-cp", "jars/*", "-d", "classes",
         *(path.name for path in directory.glob("*.java")))


def _fetch_jars(directory):
    _run(directory, "mvn", "-B", "-q", "-f", "pom.xml", "dependency:copy-dependencies",
         f"-DoutputDirectory={directory}/jars")


def _run(directory, program, *arguments):
    if not shutil.which(program):
        raise NotHere(f"{program} is not installed")
    try:
        done = subprocess.run([program, *arguments], cwd=directory, capture_output=True, text=True,
                              timeout=TIMEOUT, env={**os.environ, "CGO_ENABLED": "0"})
    except subprocess.TimeoutExpired:
        raise NotHere(f"{program} did not end within {TIMEOUT} s") from None
    if done.returncode != 0:
        raise NotHere(f"{program} {' '.join(arguments)}: {done.stderr[-500:] or done.stdout[-500:]}")
