// Tests of a function, without inboxd and Kafka. Run them with node --test.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dead, Done, Handler } from 'inboxd';
import { deliver, load, message } from 'inboxd/testing';

const handler = new Handler('billing').on('orders', ({ event }) => {
  if (event.data.address === undefined) {
    throw new Dead('an order without an address', { code: 'ADDRESS' });
  }
  return new Done({ cents: event.data.cents }, [{ type: 'invoice.made', topic: 'invoices' }]);
});

test('an order without an address', async () => {
  const outcome = await deliver(handler, await load(new URL('a17.json', import.meta.url)));
  assert.deepEqual([outcome.status, outcome.code], ['dead', 'ADDRESS']);
});

test('an order', async () => {
  const order = { cents: 1250, address: 'Main Street 1' };
  const outcome = await deliver(handler, message(order, { topic: 'orders' }));
  assert.deepEqual(outcome.result, { cents: 1250 }, String(outcome.error));
});
