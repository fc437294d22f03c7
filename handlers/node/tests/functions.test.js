// What a function returns or throws becomes the answer.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cancelled, ClaimLost, Dead, Done, Handler, Retry, SETTLED, Skip, Snooze } from 'inboxd';
import { setUp, silent, until } from './sidecar.js';

function throwing(error) {
  return () => {
    throw error;
  };
}

/** An error like those of pg. */
function databaseError(code) {
  return Object.assign(new Error('a text of the server'), { name: 'error', severity: 'ERROR', code });
}

/** Throws the error as frameworks wrap it: Drizzle by `cause`, Sequelize by `original`, TypeORM by `driverError`. */
function wrapped(error) {
  const original = Object.assign(new Error('original'), {
    original: Object.assign(new Error('driver'), { driverError: error }),
  });
  return throwing(new Error('query failed', { cause: original }));
}

function circular() {
  const error = new Error('round');
  error.cause = error;
  return error;
}

const away = (code) => ({ status: 'snooze', delay_ms: 1000, reason: 'error: a text of the server', code });

const VERDICTS = [
  ['nothing', () => {}, { status: 'done' }],
  ['a result', () => ({ invoice: 88 }), { status: 'done', result: { invoice: 88 } }],
  ['false', () => false, { status: 'done', result: false }],
  ['null', () => null, { status: 'done', result: null }],
  [
    'an instance of a class',
    () =>
      new (class Result {
        rows = [1];
      })(),
    { status: 'done' },
  ],
  [
    'Done with an instance',
    () =>
      new Done(
        new (class Result {
          rows = [1];
        })(),
      ),
    { status: 'done', result: { rows: [1] } },
  ],
  ['a BigInt', () => ({ a: [10n, 'x'] }), { status: 'done', result: { a: [10, 'x'] } }],
  [
    'a BigInt in an event',
    () => new Done(undefined, [{ type: 'x', topic: 't', data: 10n }]),
    { status: 'done', emit: [{ type: 'x', topic: 't', data: 10 }] },
  ],
  [
    'a generator',
    function* () {},
    {
      status: 'retry',
      reason: 'TypeError: the function returned a generator, which does not run by itself: use an async function',
      code: 'TypeError',
    },
  ],
  ['a date', () => new Date(0), { status: 'done', result: '1970-01-01T00:00:00.000Z' }],
  ['Done with a result', () => new Done('ü'), { status: 'done', result: 'ü' }],
  [
    'Done with events',
    () => new Done(undefined, [{ type: 'made', topic: 't', key: 'k', data: { a: 1 }, headers: { h: '1' } }]),
    { status: 'done', emit: [{ type: 'made', topic: 't', key: 'k', data: { a: 1 }, headers: { h: '1' } }] },
  ],
  [
    'Done with bytes',
    () => new Done(1, [{ type: 'x', data: Buffer.of(255) }, { type: 'y' }]),
    { status: 'done', result: 1, emit: [{ type: 'x', data_base64: '/w==' }, { type: 'y' }] },
  ],
  ['SETTLED', () => SETTLED, { status: 'settled' }],
  ['a verdict', () => new Dead('no'), { status: 'dead', reason: 'no' }],
  ['a promise', () => Promise.resolve(17), { status: 'done', result: 17 }],
  ['a rejected promise', () => Promise.reject(new Dead()), { status: 'dead' }],
  [
    'Retry',
    throwing(new Retry('503', { delayMs: 1500, code: 'UP' })),
    { status: 'retry', delay_ms: 1500, reason: '503', code: 'UP' },
  ],
  ['Retry without arguments', throwing(new Retry()), { status: 'retry' }],
  ['Retry at once', throwing(new Retry('', { delayMs: 0 })), { status: 'retry', delay_ms: 0 }],
  ['Dead', throwing(new Dead('v9', { code: 'SCHEMA' })), { status: 'dead', reason: 'v9', code: 'SCHEMA' }],
  ['Snooze', throwing(new Snooze(5000)), { status: 'snooze', delay_ms: 5000 }],
  ['Skip', throwing(new Skip()), { status: 'skipped' }],
  ['an error', throwing(new RangeError('vat')), { status: 'retry', reason: 'RangeError: vat', code: 'RangeError' }],
  [
    'an error of Node',
    throwing(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })),
    { status: 'retry', reason: 'Error: refused', code: 'ECONNREFUSED' },
  ],
  ['a text', throwing('no such order'), { status: 'retry', reason: 'no such order' }],
  ['undefined', throwing(undefined), { status: 'retry', reason: 'undefined' }],
  ['ClaimLost', throwing(new ClaimLost('claim 1.1.17 is lost')), { status: 'settled' }],
  ['IB001', throwing(databaseError('IB001')), { status: 'settled' }],
  ['a deadlock', throwing(databaseError('40P01')), away('40P01')],
  ['a wrapped deadlock', wrapped(databaseError('40P01')), { ...away('40P01'), reason: 'Error: query failed' }],
  ['a wrapped lost claim', wrapped(new ClaimLost('claim 1.1.17 is lost')), { status: 'settled' }],
  ['a wrapped IB001', wrapped(databaseError('IB001')), { status: 'settled' }],
  ['a wrapped verdict', wrapped(new Dead('no', { code: 'SCHEMA' })), { status: 'dead', reason: 'no', code: 'SCHEMA' }],
  [
    'a verdict with a cause',
    throwing(new Dead('no', { cause: databaseError('40P01') })),
    { status: 'dead', reason: 'no' },
  ],
  [
    'one of several errors',
    throwing(new AggregateError([new Error('first'), databaseError('57P01')], 'several')),
    { ...away('57P01'), reason: 'AggregateError: several' },
  ],
  [
    'a wrapped error of the data',
    wrapped(databaseError('23505')),
    { status: 'retry', reason: 'Error: query failed', code: '23505' },
  ],
  ['an error that causes itself', throwing(circular()), { status: 'retry', reason: 'Error: round', code: 'Error' }],
  ['a lock of others', throwing(databaseError('55P03')), away('55P03')],
  ['an object in use', throwing(databaseError('55006')), away('55006')],
  [
    'a wrong state',
    throwing(databaseError('55000')),
    { status: 'retry', reason: 'error: a text of the server', code: '55000' },
  ],
  [
    'an error of the data',
    throwing(databaseError('23505')),
    { status: 'retry', reason: 'error: a text of the server', code: '23505' },
  ],
];

for (const [name, fn, expected] of VERDICTS) {
  test(`the answer for ${name}`, async (t) => {
    const { sidecar, start } = await setUp(t);
    start((handler) => handler.on(fn));
    await sidecar.accept();
    sidecar.deliver(1);
    assert.deepEqual(await sidecar.answer(), expected);
  });
}

for (const value of [() => {}, Symbol('x')]) {
  test(`a result that is not JSON does not change the verdict: ${typeof value}`, async (t) => {
    const { sidecar, start } = await setUp(t);
    start((handler) => handler.on(() => value));
    await sidecar.accept();
    sidecar.deliver(1);
    const { status, result } = await sidecar.answer();
    assert.equal(status, 'done');
    assert.match(result.inboxd, /result not stored/);
  });
}

test('an event to publish that is not JSON is a retry', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(() => new Done(undefined, [{ type: 'x', topic: 't', data: Symbol('x') }])));
  await sidecar.accept();
  sidecar.deliver(1);
  assert.equal((await sidecar.answer()).status, 'retry'); // without its data it would be a tombstone
});

test('events to publish that are too long are a retry', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(() => new Done(undefined, [{ type: 'x', topic: 't', data: 'x'.repeat(9 << 20) }])));
  await sidecar.accept();
  sidecar.deliver(1);
  assert.match((await sidecar.answer()).reason, /more than 8388608/);
});

test('onError chooses the verdict', async (t) => {
  const { sidecar, start } = await setUp(t);
  const onError = (error, delivery) => (delivery.event.id === 'A1' ? new Snooze(7000, error.message) : undefined);
  start((handler) => handler.on(throwing(new Error('slow'))), { onError });
  await sidecar.accept();
  sidecar.deliver(1);
  assert.deepEqual(await sidecar.answer(1), { status: 'snooze', delay_ms: 7000, reason: 'slow' });
  sidecar.deliver(2);
  assert.equal((await sidecar.answer(2)).status, 'retry');
});

test('an onError that fails changes nothing', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(throwing(new Dead('no'))), { onError: throwing(new Error('bug')) });
  await sidecar.accept();
  sidecar.deliver(1);
  assert.deepEqual(await sidecar.answer(), { status: 'dead', reason: 'no' });
});

test('an onError that is async and rejects changes nothing, and is logged', async (t) => {
  const { sidecar, start } = await setUp(t);
  const lines = [];
  const error = (line) => lines.push(line);
  const onError = async (_, delivery) => {
    if (delivery.event.id === 'A1') {
      throw new Error('bug');
    }
    return new Snooze(7000);
  };
  start((handler) => handler.on(throwing(new Dead('no'))), { onError, logger: { ...silent, error } });
  await sidecar.accept();
  for (const number of [1, 2]) {
    sidecar.deliver(number);
    assert.deepEqual(await sidecar.answer(number), { status: 'dead', reason: 'no' });
  }
  await until(() => lines.length === 2);
  assert.match(lines[0], /^onError failed: Error: bug/);
  assert.match(lines[1], /^onError failed: .*must return its verdict, not a promise of it/);
});

test('an error is logged with its stack, without the payload', async (t) => {
  const { sidecar, start } = await setUp(t);
  const lines = [];
  start((handler) => handler.on(throwing(new Error('bug'))), {
    logger: { ...silent, error: (line) => lines.push(line) },
  });
  await sidecar.accept();
  sidecar.deliver(1, { data: 'secret' });
  await sidecar.answer();
  assert.equal(lines.length, 1);
  assert.match(lines[0], /^delivery d1 \(attempt 1 of order.created A1 from orders\) failed: Error: bug\n +at /);
  assert.doesNotMatch(lines[0], /secret/);
});

test('a long reason is cut between characters', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(throwing(new Retry(`x${'😀'.repeat(5000)}`))));
  await sidecar.accept();
  sidecar.deliver(1);
  const { reason } = await sidecar.answer();
  assert.equal(reason, `x${'😀'.repeat(2047)}`);
});

test('the most specific function gets the message', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) =>
    handler
      .on(() => 'any')
      .on('orders', () => 'topic')
      .on({ types: 'order.*' }, () => 'prefix')
      .on({ types: 'order.pa*' }, () => 'longer prefix')
      .on({ topic: 'orders', types: ['order.*'] }, () => 'both')
      .on({ topic: '*', types: ['order.paid'] }, () => 'exact'),
  );
  assert.deepEqual((await sidecar.accept()).subscribe, [
    { types: ['*', 'order.*', 'order.pa*', 'order.paid'] },
    { topic: 'orders', types: ['*', 'order.*'] },
  ]);
  const messages = [
    ['payments', 'paid', 'any'],
    ['orders', 'audit', 'topic'],
    ['payments', 'order.made', 'prefix'],
    ['orders', 'order.made', 'both'],
    ['orders', 'order.part', 'longer prefix'],
    ['orders', 'order.paid', 'exact'],
    ['orders', undefined, 'topic'],
  ];
  for (const [number, [kafkatopic, type, name]] of messages.entries()) {
    sidecar.deliver(number, { kafkatopic, type });
    assert.equal((await sidecar.answer(number)).result, name);
  }
});

test('two functions for the same messages are refused', () => {
  const handler = new Handler('billing').on({ topic: 'orders', types: ['a', 'b'] }, () => {});
  assert.throws(
    () => handler.on({ topic: 'orders', types: 'b' }, () => {}),
    /two functions for topic orders and type b/,
  );
  assert.throws(() => handler.on('orders'), TypeError);
});

test('a message without a function waits', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on({ topic: 'orders', types: 'order.paid' }, () => {}));
  assert.deepEqual((await sidecar.accept()).subscribe, [{ topic: 'orders', types: ['order.paid'] }]);
  sidecar.deliver(1);
  assert.equal((await sidecar.answer()).status, 'snooze');
});

test('functions work at the same time', async (t) => {
  const { sidecar, start } = await setUp(t);
  const waiting = [];
  start((handler) => handler.on(() => new Promise((resolve) => waiting.push(resolve))));
  await sidecar.accept();
  for (let number = 0; number < 50; number++) {
    sidecar.deliver(number);
  }
  await until(() => waiting.length === 50);
  for (const resolve of waiting) {
    resolve();
  }
  const ids = new Set();
  for (let number = 0; number < 50; number++) {
    ids.add((await sidecar.read()).id);
  }
  assert.equal(ids.size, 50);
});

const NUMBERS =
  '[9007199254740993,-9007199254740993,9007199254740991,1.5,0.1234567890123456789,"12345678901234567890","\\"1"]';
const SAME = [9007199254740991, 1.5];
const TEXTS = ['12345678901234567890', '"1'];
const BIG = ['9007199254740993', '-9007199254740993'];
const FRACTION = '0.1234567890123456789';

for (const [largeNumbers, expected] of [
  ['text', [...BIG, ...SAME, FRACTION, ...TEXTS]],
  ['bigint', [...BIG.map(BigInt), ...SAME, Number(FRACTION), ...TEXTS]],
]) {
  test(`large numbers arrive as ${largeNumbers}`, async (t) => {
    const { sidecar, start } = await setUp(t);
    const came = [];
    start((handler) => handler.on(({ event }) => void came.push(event.data)), { largeNumbers });
    await sidecar.accept();
    const message = JSON.stringify({
      jsonrpc: '2.0',
      id: 'd1',
      method: 'deliver',
      params: { delivery: { claim: '1.1.17' }, event: { id: 'A1', source: 's', kafkatopic: 't', data: 'NUMBERS' } },
    });
    sidecar.sendText(message.replace('"NUMBERS"', NUMBERS));
    assert.deepEqual(await sidecar.answer(), { status: 'done' });
    assert.deepEqual(came, [expected]);
  });
}

test('numbers keep their digits with another parser', async (t) => {
  const { sidecar, start } = await setUp(t);
  const parse = (line) => JSON.parse(line.replace(/"cents":([\d.]+)/, '"cents":"$1"'));
  start((handler) => handler.on(({ event }) => event.data.cents), { parse });
  await sidecar.accept();
  const cents = '1.50000000000000000001';
  sidecar.sendText(
    `{"jsonrpc":"2.0","id":"d1","method":"deliver","params":{"delivery":{},"event":{"data":{"cents":${cents}}}}}`,
  );
  assert.equal((await sidecar.answer()).result, cents);
});

test('a cancel aborts the signal', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) =>
    handler.on(async (delivery) => {
      if (delivery.event.id === 'A1') {
        await sleep(60_000, undefined, { signal: delivery.signal }).catch((error) =>
          seen.push(delivery.cancelled, error.cause),
        );
        assert.throws(() => delivery.signal.throwIfAborted(), Cancelled);
        assert.throws(() => delivery.extend(), Cancelled);
        seen.push('end');
      }
    }),
  );
  await sidecar.accept();
  sidecar.deliver(1);
  await sleep(20);
  sidecar.cancel(1, 'lease_lost');
  sidecar.deliver(2);
  assert.deepEqual(await sidecar.answer(2), { status: 'done' });
  await until(() => seen.length === 3);
  assert.equal(seen[0], 'lease_lost');
  assert.equal(seen[1].reason, 'lease_lost');
});

test('a signal that is asked for after the cancel is aborted', async (t) => {
  const { sidecar, start } = await setUp(t);
  const aborted = [];
  start((handler) =>
    handler.on(async (delivery) => {
      await until(() => delivery.cancelled);
      aborted.push(delivery.signal.aborted);
    }),
  );
  await sidecar.accept();
  sidecar.deliver(1);
  sidecar.cancel(1);
  await until(() => aborted.length === 1);
  assert.deepEqual(aborted, [true]);
});

test('a lost connection cancels the work', async (t) => {
  const { sidecar, start } = await setUp(t);
  const reasons = [];
  start((handler) =>
    handler.on(async (delivery) => {
      if (delivery.event.id === 'A1') {
        await sleep(60_000, undefined, { signal: delivery.signal }).catch(() => reasons.push(delivery.cancelled));
      }
    }),
  );
  await sidecar.accept();
  sidecar.deliver(1);
  await sleep(20);
  await sidecar.accept();
  await until(() => reasons.length === 1);
  assert.deepEqual(reasons, ['connection_lost']);
  sidecar.deliver(2);
  assert.deepEqual(await sidecar.answer(2), { status: 'done' });
});
