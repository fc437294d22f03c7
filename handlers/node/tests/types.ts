// What the compiler must accept, and what not. It is not run.

import { CloudEvent } from 'cloudevents';
import {
  type Batch,
  type Delivery,
  Done,
  Handler,
  type HandlerOptions,
  type InboxEvent,
  Retry,
  type StandardSchema,
  type TransactionClient,
} from 'inboxd';
import pg from 'pg';

interface Order {
  order: number;
  cents: number;
}

const options: HandlerOptions = { batch: { max: 50, ordered: true }, onError: () => {} };
const pool = new pg.Pool();

const handler = new Handler('billing', options)
  .on((delivery) => delivery.event.data.anything)
  .on<Order>('orders', async (delivery): Promise<Done> => {
    const cents: number = delivery.event.data.cents;
    // @ts-expect-error the data has a type
    const euros: number = delivery.event.data.euros;
    const id = await delivery.transaction(pool, async (client) => {
      const { rows } = await client.query<{ id: string }>('INSERT …', [cents]);
      return rows[0]?.id;
    });
    return new Done(id ?? euros, [{ type: 'made', topic: 'invoices' }]);
  })
  .on({ types: ['audit.*'] }, async (delivery: Delivery) => {
    const client = await pool.connect();
    await delivery.complete(client, { invoice: 1 }, [{ type: 'made', topic: 'invoices', data: Buffer.of(1) }]);
    await fetchSomething(delivery.signal);
  })
  .onBatch('payments', async (batch: Batch<Order>) => {
    for (const delivery of batch) {
      delivery.setVerdict(new Retry(`${delivery.event.id} is locked`, { delayMs: 5_000 }));
    }
    await batch.transaction(pool, (client: pg.PoolClient) => client.query('SELECT 1'));
  });

declare const schema: StandardSchema<Order>;
handler.on({ topic: 'shipped', schema }, ({ event }) => event.data.cents);
// @ts-expect-error the data has the type of the schema
handler.on({ topic: 'sold', schema }, ({ event }) => event.data.euros);
handler.onBatch({ topic: 'counted', schema }, (batch) => void batch.deliveries[0]?.event.data.order);

// @ts-expect-error a function is missing
handler.on('refunds');

const event = {} as InboxEvent<Order>;
const cloudEvent: CloudEvent<Order> = event.toCloudEvent(CloudEvent<Order>);
const client: TransactionClient = new pg.Client();

declare function fetchSomething(signal: AbortSignal): Promise<void>;

export { client, cloudEvent };
