// The handler of tests/bench/languages.py of the repository: handler.js noop|least|once BATCH.
//
// noop answers at once. least has an effect in a transaction of its own, and then answers done. once completes the message
// in the transaction of its effect.

import { Handler } from 'inboxd';
import pg from 'pg';

const [, , kind, size] = process.argv;
const batch = Number(size);
const pool = new pg.Pool({ max: 4 });
const handler = new Handler('bench', { maxInFlight: kind === 'noop' ? 1000 : 200, batch: { max: batch, waitMs: 5 } });

const INSERT = 'INSERT INTO effects (order_id, customer) VALUES ($1, $2)';
const INSERT_ALL = 'INSERT INTO effects (order_id, customer) SELECT * FROM unnest($1::bigint[], $2::text[])';

async function leastOnce(work) {
  const client = await pool.connect();
  await client.query('BEGIN');
  await work(client);
  await client.query('COMMIT');
  client.release();
}

const effect = ({ event }) => {
  const { order, customer } = event.data;
  return (client) => client.query(INSERT, [order, customer]);
};

const effects = ({ deliveries }) => {
  const orders = deliveries.map(({ event }) => event.data);
  return (client) =>
    client.query(INSERT_ALL, [orders.map(({ order }) => order), orders.map(({ customer }) => customer)]);
};

if (kind === 'noop') {
  handler.on(() => {});
} else if (batch === 1) {
  handler.on(
    kind === 'once'
      ? (delivery) => delivery.transaction(pool, effect(delivery))
      : (delivery) => leastOnce(effect(delivery)),
  );
} else {
  handler.onBatch(
    kind === 'once' ? (batch) => batch.transaction(pool, effects(batch)) : (batch) => leastOnce(effects(batch)),
  );
}

await handler.run();
await pool.end();
