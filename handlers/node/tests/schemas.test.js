// Typed data: Standard Schema.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Handler } from 'inboxd';
import { deliver, deliverBatch, message } from 'inboxd/testing';
import { silent } from './sidecar.js';

/** As zod makes it: an object with a number `order`. Asynchronous schemas are allowed. */
const schema = (isAsync) => ({
  '~standard': {
    version: 1,
    vendor: 'test',
    validate(value) {
      const fits = typeof value?.order === 'number';
      const result = fits
        ? { value: { order: BigInt(value.order) } }
        : { issues: [{ message: 'Expected number', path: ['items', { key: 0 }, 'order'] }, { message: 'Other' }] };
      return isAsync ? Promise.resolve(result) : result;
    },
  },
});

for (const isAsync of [false, true]) {
  test(`the data is the value of the schema${isAsync ? ', also later' : ''}`, async () => {
    const seen = [];
    const handler = new Handler('billing', { logger: silent })
      .on({ topic: 'orders', schema: schema(isAsync) }, ({ event }) => void seen.push(event.data.order))
      .onBatch({ topic: 'batches', schema: schema(isAsync) }, (batch) => {
        seen.push(...batch.deliveries.map(({ event }) => event.data.order));
      });
    assert.equal((await deliver(handler, message({ order: 17 }, { topic: 'orders' }))).status, 'done');
    const misfit = await deliver(handler, message({ order: 'x' }, { topic: 'orders' }));
    assert.deepEqual(
      [misfit.status, misfit.code, misfit.reason],
      ['dead', 'DATA', 'the data does not fit: /items/0/order: Expected number; Other'],
    );
    assert.match((await deliver(handler, message(undefined, { topic: 'orders' }))).reason, /no data/);
    assert.match((await deliver(handler, message(Buffer.of(255), { topic: 'orders' }))).reason, /no JSON/);
    const outcomes = await deliverBatch(
      handler,
      [{ order: 1 }, {}, { order: 3 }].map((data) => message(data, { topic: 'batches' })),
    );
    assert.deepEqual(
      outcomes.map((outcome) => outcome.status),
      ['done', 'dead', 'done'],
    );
    assert.deepEqual(seen, [17n, 1n, 3n]);
  });
}

test('what is no schema is refused', () => {
  assert.throws(() => new Handler('billing').on({ schema: {} }, () => {}), /Standard Schema/);
});
