// complete() and transaction() without a database: the statements, and what happens to errors. tests/languages of the
// repository has them with PostgreSQL.

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { ClaimLost, Dead, Done, Retry, SETTLED, Snooze } from 'inboxd';
import { setUp } from './sidecar.js';

/** Like a client of pg, and like a pool that has only this one. */
class Client extends EventEmitter {
  calls = [];
  status = 'T';
  released = 'no';

  /** `failures`: errors by the first word of a statement. A function is called, and may return one. */
  constructor(failures = {}) {
    super();
    this.failures = failures;
  }

  async query(text, values) {
    this.calls.push(values === undefined ? text : [text, values]);
    const [word] = text.split(/[ ;]/, 1);
    const failure = this.failures[word];
    if (failure !== undefined) {
      throw typeof failure === 'function' ? failure(this) : failure;
    }
    return { rows: [{ id: 88 }] };
  }

  getTransactionStatus() {
    return this.status;
  }

  async connect() {
    if (this.failures.connect) {
      throw this.failures.connect;
    }
    return this;
  }

  release(error) {
    this.released = error;
  }
}

function databaseError(code, message = 'a text of the server') {
  return Object.assign(new Error(message), { name: 'error', severity: 'ERROR', code });
}

const lost = databaseError('IB001', 'inbox.complete: claim 1.1.17 is lost');
const cut = new Error('Connection terminated unexpectedly');
const closes = (client) => {
  client.emit('error', cut);
  return cut;
};

/** The answer for a message that the function gets. */
async function answerTo(t, fn) {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(fn));
  await sidecar.accept();
  sidecar.deliver(1);
  return sidecar.answer();
}

const STATEMENTS = [
  [[], 'SELECT inbox.complete($1::text)', ['1.1.17']],
  [[{ a: 1 }], 'SELECT inbox.complete($1::text, $2::text::jsonb)', ['1.1.17', '{"a":1}']],
  [
    [{ a: [9007199254740993n, -1n] }],
    'SELECT inbox.complete($1::text, $2::text::jsonb)',
    ['1.1.17', '{"a":[9007199254740993,-1]}'],
  ],
  [
    [undefined, [{ type: 'made', topic: 't', data: Buffer.of(255) }]],
    'SELECT inbox.complete($1::text, $2::text::jsonb, $3::text::jsonb)',
    ['1.1.17', null, '[{"type":"made","topic":"t","data_base64":"/w=="}]'],
  ],
];

for (const [args, text, values] of STATEMENTS) {
  test(`complete() executes ${text}`, async (t) => {
    const client = new Client();
    assert.deepEqual(await answerTo(t, (delivery) => delivery.complete(client, ...args)), { status: 'settled' });
    assert.deepEqual(client.calls, [[text, values]]);
  });
}

test('a lost claim is thrown and answered settled', async (t) => {
  const claims = [];
  const answer = await answerTo(t, async (delivery) => {
    try {
      await delivery.complete(new Client({ SELECT: lost }));
    } catch (error) {
      assert.ok(error instanceof ClaimLost);
      assert.equal(error.cause, lost);
      claims.push(error.claim);
      throw error;
    }
  });
  assert.deepEqual(answer, { status: 'settled' });
  assert.deepEqual(claims, ['1.1.17']);
});

test('another error of complete() passes', async (t) => {
  const client = new Client({ SELECT: new RangeError('no') });
  assert.equal((await answerTo(t, (delivery) => delivery.complete(client))).code, 'RangeError');
});

test('a completion without a transaction is refused', async (t) => {
  const client = Object.assign(new Client(), { status: 'I' });
  assert.match((await answerTo(t, (delivery) => delivery.complete(client))).reason, /open transaction/);
  const pool = Object.assign(new Client(), { totalCount: 1 });
  assert.match((await answerTo(t, (delivery) => delivery.complete(pool))).reason, /open transaction/);
  assert.deepEqual([...client.calls, ...pool.calls], []);
});

test('a batch is completed by one statement', async (t) => {
  const { sidecar, start } = await setUp(t);
  const client = new Client();
  start((handler) =>
    handler.onBatch(async (batch) => {
      batch.deliveries[1].setVerdict(new Retry('locked'));
      await batch.complete(client, [{ n: 1 }, undefined]);
    }),
  );
  await sidecar.accept();
  sidecar.batch({}, {}, {});
  assert.deepEqual(await sidecar.statuses(), ['settled', 'retry', 'settled']);
  const text = 'SELECT inbox.complete($1::text[], $2::text[]::jsonb[])';
  assert.deepEqual(client.calls, [
    [
      text,
      [
        ['1.1.17', '3.1.17'],
        ['{"n":1}', null],
      ],
    ],
  ]);
});

test('transaction() completes the message between BEGIN and COMMIT', async (t) => {
  const client = new Client();
  const answer = await answerTo(t, async (delivery) => {
    const returned = await delivery.transaction(client, async (same) => {
      assert.equal(same, client);
      const { rows } = await same.query('INSERT', [17]);
      return new Done({ invoice: rows[0].id }, [{ type: 'made', topic: 't' }]);
    });
    assert.deepEqual(returned.result, { invoice: 88 });
    return 'a transaction has the result';
  });
  assert.deepEqual(answer, { status: 'settled' });
  const complete = 'SELECT inbox.complete($1::text, $2::text::jsonb, $3::text::jsonb)';
  assert.deepEqual(client.calls, [
    'BEGIN',
    ['INSERT', [17]],
    [complete, ['1.1.17', '{"invoice":88}', '[{"type":"made","topic":"t"}]']],
    'COMMIT',
  ]);
  assert.equal(client.released, undefined);
  assert.equal(client.listenerCount('error'), 0);
});

const away = {
  status: 'snooze',
  delay_ms: 1000,
  reason: 'Error: Connection terminated unexpectedly',
  code: 'DATABASE_AWAY',
};
const insert = (client) => client.query('INSERT');
// name, failures of the client, the function, the answer, the last statement, what release() gets
const FAILURES = [
  [
    'an error of the message',
    { INSERT: databaseError('22P02') },
    insert,
    { status: 'retry', reason: 'error: a text of the server', code: '22P02' },
    'ROLLBACK',
  ],
  [
    'an error of the function',
    {},
    () => assert.fail('bug'),
    { status: 'retry', reason: 'AssertionError: bug', code: 'ERR_ASSERTION' },
    'ROLLBACK',
  ],
  ['a verdict that is thrown', {}, () => Promise.reject(new Snooze(9)), { status: 'snooze', delay_ms: 9 }, 'ROLLBACK'],
  ['a verdict that is returned', {}, () => new Dead('no'), { status: 'dead', reason: 'no' }, 'ROLLBACK'],
  ['a lost claim', { SELECT: lost }, insert, { status: 'settled' }, 'ROLLBACK'],
  [
    'a deferred constraint',
    { COMMIT: databaseError('23503') },
    insert,
    { status: 'retry', reason: 'error: a text of the server', code: '23503' },
    'ROLLBACK',
  ],
  ['a connection that cannot be made', { connect: cut }, insert, away, undefined, 'no'],
  ['a connection that ends in BEGIN', { BEGIN: closes }, insert, away, 'BEGIN', cut],
  ['a connection that ends in a statement', { INSERT: closes }, insert, away, 'INSERT', cut],
  ['a connection that ends in COMMIT', { COMMIT: closes }, insert, away, 'COMMIT', cut],
  [
    'a connection that ends in ROLLBACK',
    { INSERT: new RangeError('no'), ROLLBACK: closes },
    insert,
    { status: 'retry', reason: 'RangeError: no', code: 'RangeError' },
    'ROLLBACK',
    cut,
  ],
];

for (const [name, failures, work, expected, last, released] of FAILURES) {
  test(`transaction() rolls back after ${name}`, async (t) => {
    const client = new Client(failures);
    assert.deepEqual(await answerTo(t, (delivery) => delivery.transaction(client, work)), expected);
    assert.equal(client.calls.at(-1), last);
    assert.equal(client.released, released);
    assert.equal(client.listenerCount('error'), 0);
  });
}

for (const [code, repeats, tries, expected] of [
  ['40001', undefined, 5, { status: 'snooze', delay_ms: 1000, reason: 'error: a text of the server', code: '40001' }],
  ['40P01', 1, 2, { status: 'snooze', delay_ms: 1000, reason: 'error: a text of the server', code: '40P01' }],
  ['23505', undefined, 1, { status: 'retry', reason: 'error: a text of the server', code: '23505' }],
]) {
  test(`transaction() is tried ${tries} times after ${code}`, async (t) => {
    const client = new Client({ COMMIT: databaseError(code) });
    const answer = answerTo(t, (delivery) =>
      delivery.transaction(client, () => 1, { isolation: 'serializable', repeats }),
    );
    assert.deepEqual(await answer, expected);
    const begun = client.calls.filter((call) => call === 'BEGIN ISOLATION LEVEL SERIALIZABLE');
    assert.equal(begun.length, tries);
  });
}

test('an isolation level is one of PostgreSQL', async (t) => {
  const client = new Client();
  const answer = await answerTo(t, (delivery) => delivery.transaction(client, () => 1, { isolation: 'x; DROP' }));
  assert.match(answer.reason, /isolation level is/);
  assert.deepEqual(client.calls, []);
});

test('the transaction of a batch completes what has no verdict', async (t) => {
  const { sidecar, start } = await setUp(t);
  const client = new Client();
  start((handler) =>
    handler.onBatch((batch) =>
      batch.transaction(client, async () => {
        batch.deliveries[0].setVerdict(new Dead('bad'));
      }),
    ),
  );
  await sidecar.accept();
  sidecar.batch({}, {}, {});
  assert.deepEqual(await sidecar.statuses(), ['dead', 'settled', 'settled']);
  assert.deepEqual(client.calls, ['BEGIN', ['SELECT inbox.complete($1::text[])', [['2.1.17', '3.1.17']]], 'COMMIT']);
});

test('events of a verdict after the completion are an error', async (t) => {
  const client = new Client();
  const reason = 'TypeError: the events of Done are lost, because the message is completed: give them to complete()';
  const late = new Done(1, [{ type: 'made', topic: 't' }]);
  for (const fn of [
    (delivery) => delivery.complete(client).then(() => late),
    (delivery) => delivery.transaction(client, () => 1).then(() => late),
  ]) {
    assert.equal((await answerTo(t, fn)).reason, reason);
  }
  assert.deepEqual(await answerTo(t, (delivery) => delivery.transaction(client, () => late)), { status: 'settled' });
});

test('a batch whose transaction rolls back has no completion and no verdict done', async (t) => {
  const { sidecar, start } = await setUp(t);
  const client = new Client({ COMMIT: databaseError('23503') });
  start((handler) =>
    handler.onBatch(async (batch) => {
      const [first, second] = batch.deliveries;
      const attempt = batch.transaction(client, async () => {
        await first.complete(client);
        first.setVerdict(SETTLED); // completed alone
        second.setVerdict(new Dead('bad'));
      });
      await assert.rejects(attempt);
    }),
  );
  await sidecar.accept();
  sidecar.batch({}, {}, {});
  assert.deepEqual(await sidecar.statuses(), ['done', 'dead', 'done']);
});

test('what a function for batches returns is not lost', async (t) => {
  const { sidecar, start } = await setUp(t);
  const client = new Client();
  const returned = [
    () => new Dead('no'),
    () => new Done(1, [{ type: 'made', topic: 't' }]),
    (batch) => batch.transaction(client, () => new Retry('locked')),
    (batch) => batch.transaction(client, () => new Done(1, [{ type: 'made', topic: 't' }])),
    function* () {}, // it never runs
  ];
  start((handler) => handler.onBatch((batch) => returned.shift()(batch)));
  await sidecar.accept();
  const statuses = [];
  while (returned.length > 0) {
    sidecar.batch({});
    statuses.push(...(await sidecar.statuses()));
  }
  assert.deepEqual(statuses, ['dead', 'retry', 'retry', 'retry', 'retry']);
  assert.ok(!client.calls.includes('COMMIT'));
});

/** Executes statements without telling whether a transaction is open, as the objects of most frameworks. */
class Unknown {
  calls = [];
  constructor(failures = {}) {
    this.failures = failures;
  }

  async query(text) {
    this.calls.push(text);
    if (this.failures[text]) {
      throw this.failures[text];
    }
  }
}

test('PostgreSQL says whether an unknown client has a transaction', async (t) => {
  const outside = { 'SAVEPOINT inboxd': databaseError('25P01', 'SAVEPOINT can only be used in transaction blocks') };
  for (const use of [(client) => client, (client) => (text, values) => client.query(text, values)]) {
    const dataSource = new Unknown(outside);
    assert.match((await answerTo(t, (delivery) => delivery.complete(use(dataSource)))).reason, /open transaction/);
    assert.deepEqual(dataSource.calls, ['SAVEPOINT inboxd']);
    const manager = new Unknown();
    assert.deepEqual(await answerTo(t, (delivery) => delivery.complete(use(manager))), { status: 'settled' });
    assert.deepEqual(manager.calls, [
      'SAVEPOINT inboxd',
      'RELEASE SAVEPOINT inboxd',
      'SELECT inbox.complete($1::text)',
    ]);
  }
  const knex = Object.assign(() => assert.fail('it is no executor'), { raw() {} });
  for (const other of [knex, { execute() {} }, undefined]) {
    assert.match((await answerTo(t, (delivery) => delivery.complete(other))).reason, /\(text, values\) => Promise/);
  }
});
