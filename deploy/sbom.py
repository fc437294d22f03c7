#!/usr/bin/env python3
"""sbom.py PROGRAM [LIBRARY…]: the bill of materials of a build as CycloneDX JSON, for scanners of vulnerabilities.

It has inboxd, the librdkafka in it, and the Debian package of each shared library that is given. It has no time and no random
number, so that the same build has the same bill.
"""

import json
import pathlib
import platform
import re
import subprocess
import sys
import urllib.parse

SOURCES = pathlib.Path(__file__).parent / "librdkafka/sources"


def output(*command):
    """Also of a command that fails."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()


def inboxd(program):
    version = output(program, "version").split("\n")[0].removeprefix("inboxd ")
    return {"type": "application", "name": "inboxd", "version": version, "bom-ref": "inboxd",
            "licenses": [{"license": {"id": "Apache-2.0"}}]}


def librdkafka(program):
    """The one in the program, which must be the one that the sources name."""
    text = SOURCES.read_text()
    version = re.search(r"^version (\S+)$", text, re.M)[1]
    if f"\nlibrdkafka {version} (static" not in output(program, "version"):
        sys.exit(f"sbom.py: {program} does not contain librdkafka {version}")
    digest, url = re.search(r"^([0-9a-f]{64}) (https:\S+)$", text, re.M).groups()
    return {"type": "library", "name": "librdkafka", "version": version, "bom-ref": "librdkafka",
            "licenses": [{"license": {"id": "BSD-2-Clause"}}],
            "purl": f"pkg:github/confluentinc/librdkafka@v{version}",
            "cpe": f"cpe:2.3:a:confluent:librdkafka:{version}:*:*:*:*:*:*:*",
            "externalReferences": [{"type": "distribution", "url": url, "hashes": [{"alg": "SHA-256", "content": digest}]}]}


def names_of(library):
    """The names that dpkg may know the file by: /lib is a link to /usr/lib."""
    names = {library, str(pathlib.Path(library).resolve())}
    return names | {name.removeprefix("/usr") for name in names} | {f"/usr{name}" for name in names}


def packages(libraries):
    """The distribution and its packages. Scanners look for their faults in the lists of the distribution."""
    system = platform.freedesktop_os_release()
    known = dict(reversed(line.split(": ", 1)) for line in
                 output("dpkg", "--search", *sorted(set().union(*map(names_of, libraries)))).splitlines())
    owners = {next((known[name] for name in names_of(library) if name in known), None) or
              sys.exit(f"sbom.py: no package has {library}") for library in libraries}
    yield {"type": "operating-system", "name": system["ID"], "version": system["VERSION_ID"], "bom-ref": system["ID"]}
    for line in sorted(output("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n", *owners).splitlines()):
        name, version, arch = line.split()
        yield {"type": "library", "name": name, "version": version, "bom-ref": name,
               "purl": f"pkg:deb/{system['ID']}/{name}@{urllib.parse.quote(version, safe='~')}"
                       f"?arch={arch}&distro={system['ID']}-{system['VERSION_ID']}"}


def main(program, *libraries):
    parts = [librdkafka(program), *(packages(libraries) if libraries else [])]
    application = inboxd(program)
    json.dump({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": application},
               "components": parts,
               "dependencies": [{"ref": "inboxd", "dependsOn": [part["bom-ref"] for part in parts]}]}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
