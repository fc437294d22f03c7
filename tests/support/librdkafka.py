"""The versions of librdkafka: the one that the sidecar is linked with, the later one in the tests' own client, and the one that
is shipped, built once into the cache."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess

from support import process
from support.maven import cache

ROOM = pathlib.Path(__file__).resolve().parents[2] / "deploy/librdkafka"
BUILD_SECONDS = 600

# Kafka settings of a sidecar: group.protocol refuses two that the other sidecars of the tests have.
CONSUMER_PROTOCOL = {"group.protocol": "consumer", "session.timeout.ms": None, "heartbeat.interval.ms": None}


def installed_version():
    """Of the program that is tested, like (2, 0, 2)."""
    from support.sidecar import binary  # pylint: disable=import-outside-toplevel
    told = subprocess.run([binary(), "version", "--json"], capture_output=True, text=True, timeout=60, check=True).stdout
    return tuple(map(int, json.loads(told)["libraries"]["librdkafka"]["version"].split(".")))


def later_librdkafka():
    """The environment in which a sidecar runs with the version of the tests' client: 2.11."""
    import confluent_kafka  # pylint: disable=import-outside-toplevel
    folder = pathlib.Path(confluent_kafka.__file__).resolve().parents[1] / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka-*.so.1"))
    assert found, f"no librdkafka in {folder}"
    links = process.scratch("librdkafka")
    os.symlink(found[0], os.path.join(links, "librdkafka.so.1"))
    return {"LD_LIBRARY_PATH": links}


def shipped():
    """The directory in which deploy/librdkafka/build.sh has installed the version of the image and the packages."""
    text = (ROOM / "sources").read_text()
    version = re.search(r"^version (\S+)$", text, re.M)[1]
    place = cache() / f"librdkafka-{version}"
    env = dict(os.environ)
    if shutil.which("npm"):
        env.setdefault("LIBRDKAFKA_SOURCE", re.search(r" (npm:\S+)$", text, re.M)[1])
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([ROOM / "build.sh", place], env=env, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode != 0:
        raise process.StartFailed(f"building librdkafka {version} failed:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return place


if __name__ == "__main__":
    print(shipped())
