"""A private schema registry with the API of Confluent's: Apicurio, with its data in memory.

Its archive comes from Maven Central once (support/registry/pom.xml names the version) and stays in the cache.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import urllib.request

from support import maven, process
from support.wait import eventually

POM = maven.HERE / "registry" / "pom.xml"
START_SECONDS = 120
REQUEST_SECONDS = 30
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")


class Registry:
    """Runs from start() to stop()."""

    def __init__(self):
        self.port = process.free_port()
        self._directory = process.scratch("registry")
        self._log = os.path.join(self._directory, "output")
        self._process = None

    def url(self, port=None):
        """Of Confluent's API, at this port or at that of a proxy."""
        return f"http://127.0.0.1:{port or self.port}/apis/ccompat/v7"

    def start(self):
        version = re.search(r"<server.version>([^<]+)", POM.read_text())[1]
        archive, = maven.fetch(POM, "Apicurio", version, goal="copy").glob("*.tar.gz")
        subprocess.run(["tar", "-xzf", archive, "-C", self._directory], check=True, timeout=START_SECONDS)
        runner, = pathlib.Path(self._directory).glob("*-runner.jar")
        self._process = process.spawn(["java", *OPTIONS, f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1",
                                       "-jar", str(runner)], self._log)
        eventually(self._answers, timeout=START_SECONDS, what="the schema registry to answer", every=0.2)
        return self

    def stop(self):
        process.end(self._process)

    def register(self, subject, schema):
        """The id of the schema, which is a new version of the subject."""
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        request = urllib.request.Request(f"{self.url()}/subjects/{subject}/versions", body,
                                         {"Content-Type": "application/vnd.schemaregistry.v1+json"})
        with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
            return json.load(answer)["id"]

    def _answers(self):
        if self._process.poll() is not None:
            raise process.StartFailed(f"the schema registry ended with exit code {self._process.returncode}:\n"
                                      f"{process.tail(self._log)}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.url()}/subjects", timeout=1) as answer:
            return answer.status == 200
        return False
