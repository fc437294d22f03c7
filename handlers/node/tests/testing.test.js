// The test kit: inboxd/testing.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Dead, Done, Handler, Retry } from 'inboxd';
import { deliver, deliverBatch, load, message } from 'inboxd/testing';
import { silent } from './sidecar.js';

/** A client of pg with an open transaction. */
const client = (status = 'T') => ({
  calls: [],
  getTransactionStatus: () => status,
  async query(text) {
    this.calls.push(text);
  },
});

test('the handler finds the function', async () => {
  const handler = new Handler('billing', {
    logger: silent,
    onError: (error) => (error instanceof RangeError ? new Dead('by the hook') : undefined),
  })
    .on({ topic: 'orders', types: 'order.*' }, ({ event }) => {
      if (event.data.order === undefined) {
        throw new RangeError('no order');
      }
      return new Done({ order: event.data.order }, [{ type: 'made', topic: 't', data: Buffer.of(255) }]);
    })
    .on('orders', async () => {
      throw new Retry('locked', { delayMs: 2000, code: 'LOCKED' });
    });
  const done = await deliver(handler, message({ order: 17 }, { topic: 'orders', type: 'order.created', key: 'c-1' }));
  assert.deepEqual([done.status, done.result, done.completed], ['done', { order: 17 }, false]);
  assert.deepEqual(done.events, [{ type: 'made', topic: 't', data_base64: '/w==' }]);
  const retry = await deliver(handler, message(undefined, { topic: 'orders' }));
  assert.deepEqual(
    [retry.status, retry.reason, retry.code, retry.delayMs, retry.error instanceof Retry],
    ['retry', 'locked', 'LOCKED', 2000, true],
  );
  assert.equal((await deliver(handler, message({}, { topic: 'orders', type: 'order.paid' }))).reason, 'by the hook');
  assert.equal((await deliver(handler, message({}, { topic: 'unknown' }))).code, 'NO_FUNCTION');
});

test('a completion is kept and not executed', async () => {
  const open = client();
  const outcome = await deliver((one) => one.complete(open, { n: 1 }, [{ type: 'made', topic: 't' }]), message());
  assert.deepEqual([outcome.status, outcome.completed, outcome.result], ['done', true, { n: 1 }]);
  assert.deepEqual([outcome.events, open.calls], [[{ type: 'made', topic: 't' }], []]);
  const refused = await deliver(
    new Handler('billing', { logger: silent }).on((one) => one.complete(client('I'))),
    message(),
  );
  assert.match(refused.reason, /open transaction/);
});

test('a transaction of the library begins and commits', async () => {
  const open = Object.assign(client(), { release() {}, on() {}, removeListener() {} });
  const pool = { connect: async () => open };
  const outcome = await deliver(
    (one) => one.transaction(pool, () => new Done(one.event.key)),
    message({}, { key: 'k' }),
  );
  assert.deepEqual([outcome.completed, outcome.result, open.calls], [true, 'k', ['BEGIN', 'COMMIT']]);
});

test('a batch', async () => {
  const handler = new Handler('billing', { batch: { ordered: true } }).onBatch(async (batch) => {
    batch.deliveries[0].setVerdict(new Retry('locked'));
    await batch.complete(client(), [{ n: 3 }]);
  });
  const outcomes = await deliverBatch(
    handler,
    ['a', 'a', 'b'].map((key) => message({}, { key })),
  );
  assert.deepEqual(
    outcomes.map((outcome) => outcome.status),
    ['retry', 'skipped', 'done'],
  );
  assert.deepEqual(outcomes[2].result, { n: 3 });
  assert.deepEqual(await deliverBatch(handler, []), []);
});

test('an exported message', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'inboxd-'));
  t.after(() => rm(directory, { recursive: true }));
  const path = join(directory, 'case.json');
  const exported = message({ order: 17 }, { topic: 'orders', attempt: 10, headers: [['h', '1']] });
  await writeFile(path, JSON.stringify(exported));
  const seen = [];
  await deliver((one) => void seen.push(one.event.data, one.attempt, one.header('h')), await load(path));
  assert.deepEqual(seen, [{ order: 17 }, 10, '1']);
  await writeFile(path, '[]');
  await assert.rejects(load(path), /inboxd export/);
});
