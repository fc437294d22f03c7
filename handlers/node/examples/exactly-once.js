import { Handler } from 'inboxd';
import pg from 'pg';

const pool = new pg.Pool({ max: 10, connectionTimeoutMillis: 5_000 });
pool.on('error', console.error); // a connection that nobody uses was lost
const handler = new Handler('invoices', { maxInFlight: 10 });

handler.on('orders', (delivery) =>
  delivery.transaction(pool, async (client) => {
    const { order, cents } = delivery.event.data;
    const insert = 'INSERT INTO invoices (order_id, cents) VALUES ($1, $2) RETURNING id';
    const { rows } = await client.query(insert, [order, cents]);
    return { invoice: rows[0].id };
  }),
);

await handler.run();
await pool.end();
