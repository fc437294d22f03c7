import { Handler } from 'inboxd';
import pg from 'pg';

const pool = new pg.Pool({ max: 2, connectionTimeoutMillis: 5_000 });
pool.on('error', console.error);
const handler = new Handler('invoices', { maxInFlight: 100, batch: { max: 50, waitMs: 10, ordered: true } });

handler.onBatch('orders', (batch) =>
  batch.transaction(pool, async (client) => {
    const orders = batch.deliveries.map((delivery) => delivery.event.data);
    await client.query('INSERT INTO invoices (order_id, cents) SELECT * FROM unnest($1::bigint[], $2::bigint[])', [
      orders.map(({ order }) => order),
      orders.map(({ cents }) => cents),
    ]);
  }),
);

await handler.run();
await pool.end();
