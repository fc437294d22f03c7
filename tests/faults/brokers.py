"""Private Kafka brokers: one that can also be reached through a proxy, and a cluster of three."""

import uuid

from support.kafka import Kafka
from support.process import free_port
from support.proxy import Proxy
from support.streams import Streams
from support.wait import eventually

# A killed broker can register again after its session has ended.
SOON = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 300}


class Proxied:
    """A broker, and a proxy for all connections to `bootstrap`. Producers and queries of the test use `kafka.bootstrap`
    without the proxy."""

    def __init__(self):
        inside = free_port()
        self.proxy = Proxy(inside)
        port, controller = free_port(), free_port()
        self.kafka = Kafka(port=port, properties={
            **SOON, "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},BEHIND://127.0.0.1:{inside},"
                         f"CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},"
                                    f"BEHIND://127.0.0.1:{self.proxy.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT,"
                                              "CONTROLLER:PLAINTEXT"})
        self.bootstrap = f"127.0.0.1:{self.proxy.port}"
        self.streams = Streams(self.kafka)

    def start(self):
        self.kafka.start()
        return self

    def close(self):
        self.streams.close()
        self.proxy.close()
        self.kafka.stop()


class Cluster:
    """Three brokers that are also controllers: any two can work without the third."""

    SIZE = 3

    def __init__(self, **properties):
        ports = [free_port() for _ in range(self.SIZE)]
        controllers = [free_port() for _ in range(self.SIZE)]
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        shared = {"controller.quorum.voters": voters,
                  "offsets.topic.replication.factor": 3, "default.replication.factor": 3,
                  "min.insync.replicas": 1, **SOON,
                  **{name.replace("_", "."): value for name, value in properties.items()}}
        cluster_id = str(uuid.uuid4())
        self.nodes = {
            number: Kafka(port=port, cluster_id=cluster_id, properties={
                **shared, "node.id": number,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"})
            for number, (port, controller) in enumerate(zip(ports, controllers), 1)}
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())
        self.streams = Streams(self, replication=3)
        self._admin = None

    def start(self):
        for node in self.nodes.values():
            node.begin()
        for node in self.nodes.values():
            node.wait_answers()
        eventually(lambda: len(self._described().brokers) == self.SIZE, 60, "three brokers")
        return self

    def stop(self):
        self.streams.close()
        for node in self.nodes.values():
            node.kill()

    def restore(self):
        """All three run, and every replica has caught up."""
        for node in self.nodes.values():
            if not node.is_running():
                node.start()
        self._admin = None  # a new client finds the current coordinators
        eventually(self._is_whole, 90, "all replicas of all topics in sync", every=0.2)

    def admin(self):
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        return self._admin

    # Who does what

    def leader(self, topic, partition):
        """The number of the node; -1 = none."""
        return self._described().topics[topic].partitions[partition].leader

    def in_sync(self, topic, partition):
        return self._described().topics[topic].partitions[partition].isrs

    def leads(self, number):
        """{(topic, partition)} that a node leads; __consumer_offsets is the groups' coordinators."""
        return {(topic.topic, partition.id) for topic in self._described().topics.values()
                for partition in topic.partitions.values() if partition.leader == number}

    def coordinator(self, group):
        described = self.admin().describe_consumer_groups([group])[group].result(30)
        return described.coordinator.id

    def _described(self):
        return self.admin().list_topics(timeout=10)

    def _is_whole(self):
        partitions = [partition for topic in self._described().topics.values()
                      for partition in topic.partitions.values()]
        return all(len(each.isrs) == len(each.replicas) for each in partitions)
