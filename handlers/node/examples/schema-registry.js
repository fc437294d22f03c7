// Decodes Avro with a schema registry. Needs avsc and SCHEMA_REGISTRY_URL.
/* global fetch, AbortSignal */

import avro from 'avsc';
import { Dead, Done, Handler, Snooze } from 'inboxd';

// What this program reads. If the producer has an older schema, Avro sets the currency; it leaves out fields that are
// not here.
const ORDER = avro.Type.forSchema({
  type: 'record',
  name: 'Order',
  fields: [
    { name: 'order', type: 'long' },
    { name: 'cents', type: 'long' },
    { name: 'currency', type: 'string', default: 'EUR' },
  ],
});
const NO_SCHEMA = 40403; // the registry says so; another 404 can also mean a wrong address
const resolvers = new Map(); // how to read what was written with a schema, by its id
const handler = new Handler('orders');

const dead = (reason) => new Dead(reason, { code: 'DATA' });
const away = (reason) => new Snooze(5_000, `schema registry: ${reason}`, { code: 'REGISTRY_AWAY' });

/** The text of a schema. Messages that arrive together may each request a new one. */
async function request(id) {
  const url = `${process.env.SCHEMA_REGISTRY_URL}/schemas/ids/${id}`;
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000) }).catch((error) => {
    throw away(error.cause?.message ?? error.message);
  });
  const { schema, error_code } = await response.json().catch(() => ({}));
  if (error_code === NO_SCHEMA) {
    throw dead(`unknown schema ${id}`);
  }
  if (typeof schema !== 'string') {
    throw away(`status ${response.status}`);
  }
  return schema;
}

async function decode(data) {
  if (!Buffer.isBuffer(data) || data.length < 5 || data[0] !== 0) {
    throw dead('not in the format of a schema registry');
  }
  const id = data.readInt32BE(1);
  const schema = resolvers.has(id) ? undefined : await request(id);
  try {
    if (schema !== undefined) {
      resolvers.set(id, ORDER.createResolver(avro.Type.forSchema(JSON.parse(schema))));
    }
    return ORDER.fromBuffer(data.subarray(5), resolvers.get(id));
  } catch (error) {
    throw dead(`not an order: ${error.message}`);
  }
}

handler.on({ types: 'order.*' }, async ({ event }) => {
  if (event.isTombstone) {
    return undefined;
  }
  return new Done(await decode(event.data));
});

await handler.run();
