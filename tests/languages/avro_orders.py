"""Produces orders as Confluent's serializer for Avro writes them. Runs with the Python of handlers/python/check.

	avro_orders.py BOOTSTRAP REGISTRY TOPIC < ORDERS

Each line of ORDERS is a JSON array: the schema, the event id, the key and the order. Prints the schema id of each order.
"""

import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

BOOTSTRAP, REGISTRY, TOPIC = sys.argv[1:]
FLUSH_SECONDS = 30

registry = SchemaRegistryClient({"url": REGISTRY, "timeout": FLUSH_SECONDS})
context = SerializationContext(TOPIC, MessageField.VALUE)
producer = Producer({"bootstrap.servers": BOOTSTRAP})
serializers = {}
for schema, event_id, key, order in map(json.loads, sys.stdin):
    serialize = serializers.setdefault(json.dumps(schema), AvroSerializer(registry, json.dumps(schema)))
    value = serialize(order, context)
    producer.produce(TOPIC, value, key, headers=[("id", event_id), ("eventType", "order.placed")])
    print(int.from_bytes(value[1:5], "big"))
sys.exit(producer.flush(FLUSH_SECONDS))
