"""Jars of Maven Central, fetched once into the cache."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from support import process

HERE = pathlib.Path(__file__).resolve().parent
FETCH_SECONDS = 600
# Maven waits half an hour for an answer otherwise.
NO_STALL = ("-Dmaven.wagon.rto=30000", "-Daether.connector.requestTimeout=30000")


def cache():
    home = os.environ.get("XDG_CACHE_HOME")
    return pathlib.Path(home, "inboxd") if home else HERE.parents[1] / ".cache"


def fetch(pom, what, version, goal="copy-dependencies"):
    """The directory with the jars that `pom` names, of this version; downloaded if the cache does not have them.

    The goal `copy` copies the artifactItems of `pom` alone, without their dependencies.
    """
    target = cache() / f"{what.lower()}-{version}"
    if target.is_dir():
        return target
    if not shutil.which("mvn"):
        raise process.StartFailed(f"Maven is needed to fetch {what}; tests/run.sh installs it")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = tempfile.mkdtemp(prefix="part-", dir=target.parent)
    try:
        done = subprocess.run(["mvn", "-B", "-q", "-f", str(pom), *NO_STALL, f"dependency:{goal}",
                               f"-Dserver.version={version}", f"-DoutputDirectory={part}"],
                              capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        shutil.rmtree(part, ignore_errors=True)
        raise process.StartFailed(f"fetching {what} {version} from Maven Central took more than {FETCH_SECONDS} s") from error
    if done.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        raise process.StartFailed(f"fetching {what} {version} from Maven Central failed:\n"
                                  f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    os.chmod(part, 0o755)
    try:
        os.rename(part, target)  # last: a cache directory is complete or absent
    except OSError:
        shutil.rmtree(part)  # another process was first
    return target
