"""A private Apache Kafka: one KRaft node on free ports.

The jars come from Maven Central once (support/kafka/pom.xml names the version) and stay in the
cache. From a shell: `python3 -m support.kafka --env FILE` writes KAFKA_BOOTSTRAP to FILE once it
answers and runs until SIGTERM; `--fetch-only` just fills the cache.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import uuid

from support import maven, process
from support.wait import eventually

POM = maven.HERE / "kafka" / "pom.xml"
START_TIMEOUT = 90

# Retention compares the time of a record with the clock. Without a limit, a record of a fixed date in a test stays; a test of
# retention gives its topic a limit.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.heartbeat.interval.ms=500
log.retention.ms=-1
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
message.max.bytes=33554432
replica.fetch.max.bytes=33554432
"""

# Starts in half the time. A benchmark needs the optimising compiler instead.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")

LOG4J = """\
Configuration:
  status: warn
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d %p %m (%c)%n"}}
  Loggers:
    Root: {level: warn, AppenderRef: [{ref: out}]}
"""


ALTER_CLIENT_QUOTAS = 49

# KAFKA_VERSION=3.9 in the environment selects another version.
VERSIONS = {"3.9": "3.9.1", "4.1": "4.1.0", "4.4": "4.4.0"}


def version():
    wanted = os.environ.get("KAFKA_VERSION")
    if not wanted:
        return re.search(r"<server.version>([^<]+)", POM.read_text())[1]
    if wanted not in VERSIONS:
        raise process.StartFailed(f"KAFKA_VERSION is {wanted}; there are {', '.join(VERSIONS)}")
    return VERSIONS[wanted]


def fetch():
    """The directory with the broker's jars."""
    return maven.fetch(POM, "Kafka", version())


class Kafka:
    """One node. `options` are for Java. start() and stop() may alternate; port and data stay the same.

    Nodes of one cluster have the same `cluster_id`, and `properties` with the controller ports of all of them.
    """

    def __init__(self, directory=None, port=None, properties=None, cluster_id=None,
                 options=QUICK):
        self.directory = directory or process.scratch("kafka")
        self.data = os.path.join(self.directory, "data")
        self.log = os.path.join(self.directory, "kafka.log")
        self.port = port or process.free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.cluster_id = cluster_id or str(uuid.uuid4())
        self._options = options
        self._classpath = f"{fetch()}/*"
        self._properties = os.path.join(self.directory, "server.properties")
        self._process = None
        self._admin = None
        self._write_properties(properties or {})

    def start(self):
        self.begin()
        self.wait_answers()
        return self

    def begin(self):
        """Does not wait: a node of a cluster answers only when most of them run."""
        if not os.path.exists(os.path.join(self.data, "meta.properties")):
            self._format()
        self._process = process.spawn(self._java("kafka.Kafka", self._properties), self.log,
                                      cwd=self.directory)

    def wait_answers(self):
        eventually(self._answers, timeout=START_TIMEOUT, what="Kafka to answer", every=0.2)

    def stop(self):
        process.end(self._process, signal.SIGTERM, timeout=60)
        self._process = None

    def kill(self):
        """kill -9. Data that the broker did not flush is still in the page cache; everything else is lost."""
        process.end(self._process, signal.SIGKILL)
        self._process = None

    def pause(self):
        """It answers nothing, and its connections stay open, until resume()."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def restart(self):
        self.stop()
        self.start()

    def admin(self):
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap,
                                       "log_level": 2})
        return self._admin

    def set_quota(self, client_id, **quota):
        """Of clients with this id. confluent-kafka has no call for it, and the program of Kafka is not in the same jar in all versions,
        so this sends the request (AlterClientQuotas, version 0) itself."""
        def text(value):
            return struct.pack(">h", len(value)) + value.encode()

        body = struct.pack(">ii", 1, 1) + text("client-id") + text(client_id) + struct.pack(">i", len(quota))
        for name, value in quota.items():
            body += text(name) + struct.pack(">d?", value, False)
        request = struct.pack(">hhi", ALTER_CLIENT_QUOTAS, 0, 1) + text("tests") + body + struct.pack(">?", False)
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.makefile("rb")
            _correlation, _delay, entries, code = struct.unpack_from(">iiih", answer.read(struct.unpack(">i", answer.read(4))[0]))
        assert (entries, code) == (1, 0), f"{entries} entries, error {code}"

    def _write_properties(self, extra):
        os.makedirs(self.directory, exist_ok=True)
        text = PROPERTIES.format(port=self.port, controller=process.free_port(), data=self.data)
        text += "".join(f"{name}={value}\n" for name, value in extra.items())  # the last one counts
        pathlib.Path(self._properties).write_text(text)
        pathlib.Path(self.directory, "log4j2.yaml").write_text(LOG4J)

    def _java(self, *arguments):
        return ["java", *self._options,
                f"-Dlog4j2.configurationFile={self.directory}/log4j2.yaml",
                "-cp", self._classpath, *arguments]

    def _format(self):
        done = subprocess.run(self._java("kafka.tools.StorageTool", "format", "-t",
                                         self.cluster_id, "-c", self._properties),
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise process.StartFailed(f"formatting Kafka's storage failed:\n{done.stdout}{done.stderr}")

    def _answers(self):
        if self._process.poll() is not None:
            raise process.StartFailed(f"Kafka ended with exit code {self._process.returncode}:\n"
                                      f"{process.tail(self.log)}")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def main():
    parser = argparse.ArgumentParser(description="Run a private Apache Kafka until SIGTERM.")
    parser.add_argument("--directory", help="where its data lives (default: a temporary directory)")
    parser.add_argument("--port", type=int, help="default: a free one")
    parser.add_argument("--env", help="file to write KAFKA_BOOTSTRAP to once it answers")
    parser.add_argument("--fetch-only", action="store_true", help="fill the cache and end")
    parser.add_argument("--auto-create", action="store_true",
                        help="topics are created when used, with 4 partitions")
    options = parser.parse_args()
    if options.fetch_only:
        print(fetch())
        return
    automatic = {"auto.create.topics.enable": "true", "num.partitions": "4"}
    server = Kafka(options.directory, options.port,
                   automatic if options.auto_create else {}).start()
    if options.env:
        process.write_exports(options.env, {"KAFKA_BOOTSTRAP": server.bootstrap})
    process.wait_for_stop()
    server.stop()


if __name__ == "__main__":
    main()
