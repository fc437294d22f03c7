// The middlewares for idempotency keys with a pool that is a script. tests/languages of the repository has tests with PostgreSQL.

/* global AbortController, fetch */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import express from 'express';
import Fastify from 'fastify';
import { idempotency as forExpress } from 'inboxd/express';
import { idempotency as forFastify } from 'inboxd/fastify';

/** A pool whose requests start, or are replays of `stored`. fails[name] is thrown where it says. */
function makePool({ fails = {}, stored } = {}) {
  const pool = { calls: [], values: {}, released: [] };
  const client = {
    on() {},
    removeListener() {},
    release: (error) => pool.released.push(error),
    async query(text, values) {
      const name = /http_request_(\w+)/.exec(text)?.[1] ?? text;
      pool.calls.push(name);
      pool.values[name] = values;
      if (fails[name] !== undefined) {
        throw fails[name];
      }
      const begun = stored ?? { token: 'token', status: null, headers: null, body: null };
      return { rows: [name === 'begin' ? begun : { commits: true, expires: 'tomorrow' }] };
    },
  };
  pool.connect = async () => {
    if (fails.connect !== undefined) {
      throw fails.connect;
    }
    return client;
  };
  return pool;
}

const SERVERS = {
  async express(pool, handle, t) {
    const app = express();
    app.disable('x-powered-by');
    app.use((request, response, next) => {
      response.set({ 'x-request-id': request.get('x-request-id'), vary: 'Origin' });
      next();
    });
    app.use(express.json(), forExpress({ pool }));
    app.post('/orders', handle);
    // eslint-disable-next-line no-unused-vars -- Express counts the parameters
    app.use((error, request, response, next) => response.status(500).json({ message: error.message }));
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    return `http://127.0.0.1:${server.address().port}`;
  },
  async fastify(pool, handle, t) {
    const app = Fastify();
    app.addHook('onRequest', async (request, reply) => {
      reply.headers({ 'x-request-id': request.headers['x-request-id'], vary: 'Origin' });
    });
    await app.register(forFastify, { pool });
    app.post('/orders', handle);
    t.after(() => app.close());
    return app.listen({ port: 0, host: '127.0.0.1' });
  },
};
const HANDLERS = {
  express: (request, response) => response.set({ location: '/orders/1', etag: '"1"' }).status(201).send('made'),
  fastify: (request, reply) => reply.headers({ location: '/orders/1', etag: '"1"' }).code(201).send('made'),
};

async function post(address, id = '1') {
  const headers = { 'content-type': 'application/json', 'idempotency-key': '"k"', 'x-request-id': id };
  const response = await fetch(`${address}/orders`, { method: 'POST', headers, body: '{"a":1}' });
  const text = await response.text();
  return { status: response.status, headers: Object.fromEntries(response.headers), text };
}

/** What is written to console.error. */
function logged(t) {
  const lines = [];
  t.mock.method(console, 'error', (...words) => lines.push(words.map(String).join(' ')));
  return lines;
}

for (const [name, serve] of Object.entries(SERVERS)) {
  test(`${name}: the database gets the request and the response`, async (t) => {
    const pool = makePool();
    const answer = await post(await serve(pool, HANDLERS[name], t));
    assert.deepEqual(pool.calls, ['BEGIN', 'begin', 'complete', 'COMMIT']);
    assert.deepEqual(pool.values.begin, ['"k"', 'POST', '/orders', Buffer.from('{"a":1}'), '', '24 hours', true]);
    assert.deepEqual([answer.status, answer.text, answer.headers['idempotency-expires']], [201, 'made', 'tomorrow']);
    assert.deepEqual(
      [...pool.values.complete.slice(0, 2), pool.values.complete[3]],
      ['token', 201, Buffer.from('made')],
    );
  });

  test(`${name}: headers of outer middlewares are not stored, and each copy has its own`, async (t) => {
    const pool = makePool();
    await post(await serve(pool, HANDLERS[name], t));
    const stored = JSON.parse(pool.values.complete[2]);
    assert.deepEqual([stored.location, stored['x-request-id'], stored.vary], ['/orders/1', undefined, undefined]);
    const again = makePool({
      stored: { token: null, status: 201, headers: '{"location":"/orders/1"}', body: Buffer.from('made') },
    });
    const answer = await post(await serve(again, HANDLERS[name], t), '2');
    assert.deepEqual(
      [answer.headers['x-request-id'], answer.headers.location, answer.text],
      ['2', '/orders/1', 'made'],
    );
    assert.deepEqual(again.calls, ['BEGIN', 'begin', 'ROLLBACK']);
  });

  test(`${name}: a refusal keeps the headers of outer middlewares, and no others`, async (t) => {
    logged(t);
    const wrong = Object.assign(new Error('no'), { severity: 'ERROR', code: 'IB010' });
    const { status, headers } = await post(
      await serve(makePool({ fails: { complete: wrong } }), HANDLERS[name], t),
      '3',
    );
    assert.deepEqual(
      [status, headers['x-request-id'], headers.vary, headers.location],
      [500, '3', 'Origin', undefined],
    );
  });

  for (const error of [
    Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' }),
    new Error('timeout exceeded when trying to connect'),
    new Error('Connection terminated unexpectedly'),
    Object.assign(new Error('the database system is shutting down'), { severity: 'FATAL', code: '57P03' }),
  ]) {
    test(`${name}: a database that is away is 503: ${error.message}`, async (t) => {
      logged(t);
      for (const place of ['connect', 'BEGIN', 'begin', 'complete', 'COMMIT']) {
        const { status, headers, text } = await post(
          await serve(makePool({ fails: { [place]: error } }), HANDLERS[name], t),
        );
        assert.deepEqual([status, headers['retry-after'], JSON.parse(text).type], [503, '1', 'database-away'], place);
      }
    });
  }

  test(`${name}: a mistake in the program is its error`, async (t) => {
    logged(t);
    const mistakes = [
      new TypeError('pool.connect is not a function'),
      Object.assign(new Error('x'), { code: 'ERR_INVALID_ARG_TYPE' }),
    ];
    for (const error of mistakes) {
      for (const place of ['connect', 'begin', 'complete']) {
        const { status, text } = await post(await serve(makePool({ fails: { [place]: error } }), HANDLERS[name], t));
        assert.deepEqual([status, JSON.parse(text).message], [500, error.message], place);
      }
    }
  });

  test(`${name}: an error response after a failed statement is sent, and not stored`, async (t) => {
    const aborted = Object.assign(new Error('aborted'), { severity: 'ERROR', code: '25P02' });
    const pool = makePool({ fails: { complete: aborted } });
    const taken = (request, reply) => reply.status(409).send('taken');
    const { status, text } = await post(await serve(pool, taken, t));
    assert.deepEqual([status, text, pool.calls.at(-1)], [409, 'taken', 'ROLLBACK']);
  });
}

test('express: writeHead() takes names and values in turn', async (t) => {
  const pool = makePool();
  const handle = (request, response) => {
    response.setHeader('x-two', 'old');
    response.writeHead(201, ['Location', '/orders/1', 'X-Two', 'a', 'X-Two', 'b']);
    response.end('made');
  };
  const { headers } = await post(await SERVERS.express(pool, handle, t));
  assert.deepEqual([headers.location, headers['x-two'], headers[0]], ['/orders/1', 'a, b', undefined]);
  assert.deepEqual(JSON.parse(pool.values.complete[2]), { location: '/orders/1', 'x-two': ['a', 'b'] });
});

test('fastify: a raw response is an error in the log, and its transaction ends at once', async (t) => {
  const lines = logged(t);
  const pool = makePool();
  const handle = (request, reply) => {
    reply.hijack();
    reply.raw.end('raw');
  };
  assert.equal((await post(await SERVERS.fastify(pool, handle, t))).text, 'raw');
  for (let i = 0; i < 100 && pool.released.length === 0; i++) {
    await setTimeout(10);
  }
  assert.match(String(pool.released[0]), /did not pass through reply\.send/);
  assert.match(lines.join('\n'), /did not pass through reply\.send\(\); nothing is committed/);
  assert.deepEqual(pool.calls, ['BEGIN', 'begin']);
});

test('fastify: a stream that breaks off is rolled back', async (t) => {
  const pool = makePool();
  async function* broken() {
    yield 'one';
    throw new Error('broken');
  }
  assert.equal(
    (await post(await SERVERS.fastify(pool, (request, reply) => reply.send(Readable.from(broken())), t))).status,
    500,
  );
  assert.equal(pool.calls.at(-1), 'ROLLBACK');
});

test('express: a request whose client has gone is abandoned, and the log says so', async (t) => {
  const lines = logged(t);
  const pool = makePool();
  let begun;
  const address = await SERVERS.express(pool, () => begun(), t);
  const aborter = new AbortController();
  const started = new Promise((resolve) => (begun = resolve));
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' };
  const asked = fetch(`${address}/orders`, { method: 'POST', headers, body: '{}', signal: aborter.signal });
  await started;
  t.mock.timers.enable({ apis: ['setTimeout'] });
  aborter.abort();
  await assert.rejects(asked);
  for (let i = 0; i < 1000 && pool.released.length === 0; i++) {
    t.mock.timers.tick(10_000);
    await setImmediate();
  }
  assert.match(String(pool.released[0]), /the client has gone/);
  assert.match(lines.join('\n'), /the client has gone, and the request did not end; nothing is committed/);
});
