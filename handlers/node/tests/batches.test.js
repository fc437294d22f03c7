// Functions for batches, and functions for single messages in batches.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClaimLost, Dead, Done, Retry, Snooze } from 'inboxd';
import { setUp, until } from './sidecar.js';

const A = { partitionkey: 'a' };
const B = { partitionkey: 'b' };
const ordered = { batch: { ordered: true } };

test('a function for batches gets all messages', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) => handler.onBatch((batch) => seen.push(batch.deliveries.map((delivery) => delivery.id))));
  assert.deepEqual((await sidecar.accept()).batch, { max: 100, wait_ms: 0 });
  sidecar.batch(A, B, A);
  assert.deepEqual(await sidecar.statuses(), ['done', 'done', 'done']);
  assert.deepEqual(seen, [['d1', 'd2', 'd3']]);
});

test('each message may have a verdict of its own', async (t) => {
  const { sidecar, start } = await setUp(t);
  start(
    (handler) =>
      handler.onBatch(async ({ deliveries: [first, second, third] }) => {
        await sleep(1);
        first.setVerdict({ invoice: 1 });
        second.setVerdict(new Retry('locked'));
        third.setVerdict(new Dead());
      }),
    { batch: { max: 10, waitMs: 20 } },
  );
  assert.deepEqual((await sidecar.accept()).batch, { max: 10, wait_ms: 20 });
  sidecar.batch({}, {}, {}, {});
  assert.deepEqual(await sidecar.answers(), [
    { status: 'done', result: { invoice: 1 } },
    { status: 'retry', reason: 'locked' },
    { status: 'dead' },
    { status: 'done' },
  ]);
});

test('an error is the verdict for all', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.onBatch(() => Promise.reject(new Snooze(3000))));
  await sidecar.accept();
  sidecar.batch(A, A, B);
  assert.deepEqual(await sidecar.statuses(), ['snooze', 'snooze', 'snooze']);
});

test('in an ordered batch it is the verdict for the first of each key', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.onBatch(() => assert.fail('bug')), ordered);
  assert.equal((await sidecar.accept()).batch.ordered, true);
  sidecar.batch(A, A, B, {});
  assert.deepEqual(await sidecar.statuses(), ['retry', 'skipped', 'retry', 'retry']);
});

test('a loop over an ordered batch leaves out what is behind', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  const verdicts = { d1: new Retry('locked'), d3: new Dead('bad') };
  start((handler) => {
    handler.onBatch((batch) => {
      for (const delivery of batch) {
        seen.push(delivery.id);
        if (delivery.id in verdicts) {
          delivery.setVerdict(verdicts[delivery.id]);
        }
      }
    });
  }, ordered);
  await sidecar.accept();
  sidecar.batch(A, A, B, B);
  assert.deepEqual(await sidecar.statuses(), ['retry', 'skipped', 'dead', 'done']);
  assert.deepEqual(seen, ['d1', 'd3', 'd4']);
});

test('a lost claim gives the others back', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.onBatch(() => Promise.reject(new ClaimLost('inbox.complete: claim 2.1.17 is lost'))));
  await sidecar.accept();
  sidecar.batch({}, {}, {});
  assert.deepEqual(await sidecar.statuses(), ['skipped', 'settled', 'skipped']);
});

test('the messages of a key are processed one after the other, keys at the same time', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) => {
    handler.on(async (delivery) => {
      seen.push(`${delivery.id} begins`);
      await sleep(delivery.id === 'd1' ? 30 : 1);
      seen.push(`${delivery.id} ends`);
      return delivery.id === 'd3' ? new Retry() : undefined;
    });
  }, ordered);
  await sidecar.accept();
  sidecar.batch(A, A, B, B);
  assert.deepEqual(await sidecar.statuses(), ['done', 'done', 'retry', 'skipped']);
  assert.deepEqual(seen, ['d1 begins', 'd3 begins', 'd3 ends', 'd1 ends', 'd2 begins', 'd2 ends']);
});

test('functions of both kinds keep the order of a key', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) => {
    handler.on('orders', async (delivery) => {
      await sleep(1);
      seen.push(delivery.id);
      if (delivery.event.data === 'fail') {
        throw new Retry();
      }
    });
    handler.onBatch({ topic: 'orders', types: 'order.paid' }, (batch) => seen.push([...batch].map(({ id }) => id)));
  }, ordered);
  await sidecar.accept();
  const paid = { ...A, type: 'order.paid' };
  sidecar.batch(A, paid, { ...paid, ...B }, { ...A, data: 'fail' }, paid, { ...paid, ...B });
  assert.deepEqual(await sidecar.statuses(), ['done', 'done', 'done', 'retry', 'skipped', 'done']);
  assert.deepEqual(seen, ['d1', ['d2', 'd3'], 'd4', ['d6']]);
});

test('an unordered batch is split by functions', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) =>
    handler.on('orders', (delivery) => delivery.id).onBatch('payments', (batch) => seen.push(batch.length)),
  );
  await sidecar.accept();
  const payment = { kafkatopic: 'payments' };
  sidecar.batch(payment, {}, payment, { kafkatopic: 'refunds' });
  const answers = await sidecar.answers();
  assert.deepEqual(
    answers.map(({ status, result }) => result ?? status),
    ['done', 'd2', 'done', 'snooze'],
  );
  assert.deepEqual(seen, [2]);
});

test('results that are too long together are left out', async (t) => {
  const { sidecar, start } = await setUp(t);
  start(
    (handler) =>
      handler.on(({ id }) => {
        const long = 'x'.repeat(3000);
        return { d3: new Dead('no'), d4: new Done(1, [{ type: 'made', topic: 't', data: long }]) }[id] ?? long;
      }),
    { batch: { max: 10 } },
  );
  await sidecar.accept({ max_line_bytes: 20_000 });
  sidecar.batch({}, {}, {}, {});
  const [first, second, third, fourth] = await sidecar.answers();
  assert.equal(first.result.length, 3000);
  assert.match(second.result.inboxd, /result not stored/);
  assert.deepEqual(third, { status: 'dead', reason: 'no' });
  assert.deepEqual(fourth, { status: 'skipped' }); // it comes again, and its events are published
});

test('the signal of a batch is aborted when nothing of it is left', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) =>
    handler.onBatch(async (batch) => {
      await until(() => batch.deliveries[0].cancelled);
      seen.push(batch.signal.aborted);
      await sleep(60_000, undefined, { signal: batch.signal }).catch(() => seen.push(batch.signal.reason.reason));
    }),
  );
  await sidecar.accept();
  sidecar.batch({}, {});
  sidecar.cancel(1);
  await until(() => seen.length === 1);
  sidecar.cancel(2, 'lease_lost');
  await until(() => seen.length === 2);
  assert.deepEqual(seen, [false, 'lease_lost']);
});

test('a batch with an entry without an event is refused', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.onBatch(() => {}));
  await sidecar.accept();
  sidecar.send({ id: 'b1', method: 'deliver_batch', params: { entries: [{ id: 'd1', delivery: {} }] } });
  assert.equal((await sidecar.read()).error.code, -32602);
});
