"""The librdkafka that the sidecar is linked with, and the later version in the tests' own client."""

import ctypes
import os
import pathlib

import confluent_kafka

from support import process


def installed_version():
    """As librdkafka writes it: 0x020002ff is 2.0.2."""
    return ctypes.CDLL("librdkafka.so.1").rd_kafka_version()


def later_librdkafka():
    """The environment in which a sidecar runs with the version of the tests' client: 2.11."""
    folder = pathlib.Path(confluent_kafka.__file__).resolve().parents[1] / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka-*.so.1"))
    assert found, f"no librdkafka in {folder}"
    links = process.scratch("librdkafka")
    os.symlink(found[0], os.path.join(links, "librdkafka.so.1"))
    return {"LD_LIBRARY_PATH": links}
