"""Decodes Avro with a schema registry. Needs ``pip install "confluent-kafka[avro,schemaregistry]"`` and SCHEMA_REGISTRY_URL."""

import os
from typing import Any

import inboxd
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError

# What this program reads. If the producer has an older schema, Avro sets the currency; it leaves out fields that are not here.
ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "order", "type": "long"},
    {"name": "cents", "type": "long"},
    {"name": "currency", "type": "string", "default": "EUR"}]}"""
NO_SCHEMA = 40403  # the registry says so; another 404 can also mean a wrong address

# inboxd repeats the message, so that the client need not repeat the request. The client keeps the schemas.
registry = SchemaRegistryClient({"url": os.environ["SCHEMA_REGISTRY_URL"], "timeout": 5, "max.retries": 0})
deserialize = AvroDeserializer(registry, ORDER)
handler = inboxd.Handler("orders", workers=4)


def decode(data: Any) -> Any:
    if not isinstance(data, bytes) or len(data) < 5 or data[0] != 0:
        raise inboxd.Dead("not in the format of a schema registry", code="DATA")
    try:
        registry.get_schema(int.from_bytes(data[1:5], "big"))
    except Exception as error:
        if isinstance(error, SchemaRegistryError) and error.error_code == NO_SCHEMA:
            raise inboxd.Dead(f"unknown schema: {error}", code="DATA") from error
        raise inboxd.Snooze(5, f"schema registry: {error}", code="REGISTRY_AWAY") from error
    try:
        return deserialize(data)
    except Exception as error:
        raise inboxd.Dead(f"not an order: {error!r}", code="DATA") from error


@handler.on(types="order.*")
def take(delivery: inboxd.Delivery):
    if delivery.event.is_tombstone:
        return None
    return decode(delivery.event.data)


handler.run()
