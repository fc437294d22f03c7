"""The Kafka side of a test: topics, records, group offsets."""

import itertools
import time

from confluent_kafka import (Consumer, ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException,
                             Producer, TopicPartition)
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType

from support.wait import eventually

# For a broker that has just started.
NOT_YET = {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE,
           KafkaError.NOT_COORDINATOR, KafkaError._TRANSPORT, KafkaError._TIMED_OUT,
           KafkaError._WAIT_COORD}


class Streams:
    """Clients of one Kafka server, created on first use."""

    def __init__(self, kafka, replication=1):
        self.kafka = kafka
        self.replication = replication
        self._producer = None
        self._readers = {}  # by group
        self._turns = {}  # by topic: the partitions of its next records without a key

    def close(self):
        for reader in self._readers.values():
            reader.close()
        if self._producer is not None:
            self._producer.flush(5)

    # Topics

    def create(self, topic, partitions=4, **configuration):
        settings = {name.replace("_", "."): str(value) for name, value in configuration.items()}
        new = NewTopic(topic, partitions, self.replication, config=settings)
        self._turns.pop(topic, None)
        self.kafka.admin().create_topics([new])[topic].result(30)
        eventually(lambda: self._partitions(topic) == partitions, what=f"topic {topic}")
        eventually(lambda: self._answers(topic), what=f"leaders of topic {topic}")

    def delete(self, topic):
        self.kafka.admin().delete_topics([topic])[topic].result(30)
        eventually(lambda: self._partitions(topic) == 0, what=f"topic {topic} to be gone")

    def delete_records(self, topic, partition, before):
        """Makes Kafka forget the records below an offset, as retention does."""
        target = TopicPartition(topic, partition, before)
        self.kafka.admin().delete_records([target])[target].result(30)

    def configure(self, topic, **configuration):
        settings = {name.replace("_", "."): str(value) for name, value in configuration.items()}
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=settings)
        self.kafka.admin().alter_configs([resource])[resource].result(30)

    # Records. Those without a key or a partition go to all partitions of the topic in turn: the partitioner of librdkafka may
    # put hundreds of them into one partition.

    def produce(self, topic, value, key=None, headers=None, partition=None, timestamp=None):
        """Writes one record and waits for its offset, which it returns.

        Headers are a list of (name, value) or a dictionary; values may be str, bytes or None.
        """
        done = []
        self._produce(topic, value, key, headers, partition, timestamp,
                      on_delivery=lambda error, record: done.append((error, record)))
        self.producer().flush(30)
        assert done and done[0][0] is None, f"not produced: {done}"
        return done[0][1].offset()

    def produce_many(self, topic, records):
        """Writes dictionaries of produce()'s arguments in one go and waits for all of them."""
        failures = []

        def on_delivery(error, _record):
            if error is not None:
                failures.append(error)

        for record in records:
            while True:
                try:
                    self._produce(topic, **record, on_delivery=on_delivery)
                    break
                except BufferError:
                    self.producer().poll(0.1)
        assert self.producer().flush(120) == 0
        assert not failures, failures[0]

    def events(self, topic, ids, key=lambda event_id: None, value=lambda event_id: b"{}"):
        """Writes one record per id, the id in header `id`."""
        self.produce_many(topic, ({"value": value(event_id), "key": key(event_id),
                                   "headers": [("id", event_id)]} for event_id in ids))

    def producer(self):
        if self._producer is None:
            # flush() does not wait for linger.ms: the records of one partition that produce_many() writes are one batch
            self._producer = Producer({"bootstrap.servers": self.kafka.bootstrap,
                                       "linger.ms": 100, "acks": "all", "log_level": 2,
                                       "message.max.bytes": 33554432,
                                       "queue.buffering.max.messages": 500000})
        return self._producer

    # Offsets

    def log_end(self, topic):
        """{partition: offset after the last record}"""
        return self._list_offsets(topic, OffsetSpec.latest())

    def stable_end(self, topic):
        """The offset in partition 0 behind which transactions are open: readers of committed records wait there."""
        partition = TopicPartition(topic, 0)
        answer = self.kafka.admin().list_offsets({partition: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
        return answer[partition].result(30).offset

    def log_start(self, topic):
        return self._list_offsets(topic, OffsetSpec.earliest())

    def committed(self, group, topic):
        """{partition: committed offset}; partitions without one are missing."""
        wanted = [TopicPartition(topic, number) for number in range(self._partitions(topic))]
        answer = wanted and eventually(lambda: self._ask_committed(group, wanted),
                                       what=f"the offsets of group {group}")
        return {entry.partition: entry.offset for entry in answer if entry.offset >= 0}

    def lag(self, group, topic):
        """Records not yet committed by the group, over all partitions."""
        committed = self.committed(group, topic)
        return sum(end - committed.get(partition, 0)
                   for partition, end in self.log_end(topic).items())

    def set_committed(self, group, topic, offsets):
        """Moves the offsets of a group without members, as an operator's reset does."""
        wanted = ConsumerGroupTopicPartitions(
            group, [TopicPartition(topic, number, offset) for number, offset in offsets.items()])
        eventually(lambda: self._is_empty(group), timeout=40, what=f"group {group} to be empty")
        self.kafka.admin().alter_consumer_group_offsets([wanted])[group].result(30)

    def delete_group(self, group):
        eventually(lambda: self._is_empty(group), timeout=40, what=f"group {group} to be empty")
        self.kafka.admin().delete_consumer_groups([group])[group].result(30)

    def members(self, group):
        described = self.kafka.admin().describe_consumer_groups([group])[group].result(30)
        return described.members

    def protocol_of(self, group):
        """CLASSIC or CONSUMER; a group with one member of the protocol `consumer` is a CONSUMER."""
        listed = self.kafka.admin().list_consumer_groups().result(30).valid
        return next(each.type.name for each in listed if each.group_id == group)

    def read(self, topic, count, timeout=30):
        """The first `count` records of a topic."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": "reader",
                             "enable.auto.commit": False, "log_level": 2})
        records, deadline = [], time.monotonic() + timeout
        try:
            consumer.assign([TopicPartition(topic, number, 0)
                             for number in range(self._partitions(topic))])
            while len(records) < count and time.monotonic() < deadline:
                record = consumer.poll(0.2)
                if record is not None and record.error() is None:
                    records.append(record)
        finally:
            consumer.close()
        assert len(records) == count, f"{len(records)} of {count} records in {topic}"
        return records

    def read_what_is_there(self, topic):
        """All records of partition 0 that are left."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": "reader",
                             "enable.auto.commit": False, "enable.partition.eof": True,
                             "auto.offset.reset": "earliest", "log_level": 2})
        records = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while (record := consumer.poll(60)) is not None and record.error() is None:
                records.append(record)
            assert record is not None and record.error().code() == KafkaError._PARTITION_EOF, \
                f"{topic} was not read to its end: {record and record.error()}"
        finally:
            consumer.close()
        return records

    def _produce(self, topic, value, key=None, headers=None, partition=None, timestamp=None,
                 on_delivery=None):
        if key is None and partition is None:
            partition = self._next_partition(topic)
        optional = {"partition": partition, "timestamp": timestamp}
        pairs = list(headers.items()) if isinstance(headers, dict) else headers
        self.producer().produce(topic, value, key, headers=pairs, on_delivery=on_delivery,
                                **{name: given for name, given in optional.items()
                                   if given is not None})

    def _next_partition(self, topic):
        """None for a topic that does not exist yet."""
        if topic not in self._turns:
            partitions = self._partitions(topic)
            if partitions == 0:
                return None
            self._turns[topic] = itertools.cycle(range(partitions))
        return next(self._turns[topic])

    def _ask_committed(self, group, wanted):
        """With a consumer that never joins: an admin client of librdkafka 2.11 crashes when it queries a broker that
        has just started."""
        if group not in self._readers:
            self._readers[group] = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": group,
                                             "reconnect.backoff.max.ms": 500, "log_level": 2})
        try:
            return self._readers[group].committed(wanted, timeout=10)
        except KafkaException as error:
            if error.args[0].code() in NOT_YET:
                return None
            raise

    def _list_offsets(self, topic, spec):
        asked = {TopicPartition(topic, number): spec for number in range(self._partitions(topic))}
        answers = self.kafka.admin().list_offsets(asked)
        return {entry.partition: answer.result(30).offset for entry, answer in answers.items()}

    def _partitions(self, topic):
        found = self.kafka.admin().list_topics(timeout=10).topics.get(topic)
        return len(found.partitions) if found is not None and found.error is None else 0

    def _answers(self, topic):
        try:
            return len(self.log_end(topic)) > 0
        except KafkaException:
            return False  # a leader is still being elected

    def _is_empty(self, group):
        return not self.members(group)
