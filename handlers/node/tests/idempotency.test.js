// The middlewares for idempotency keys with a pool that is a script. tests/languages of the repository has tests with PostgreSQL.

/* global AbortController, Blob, FormData, fetch */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import multipart from '@fastify/multipart';
import compression from 'compression';
import express from 'express';
import fileUpload from 'express-fileupload';
import Fastify from 'fastify';
import { idempotency as forExpress } from 'inboxd/express';
import { idempotency as forFastify } from 'inboxd/fastify';
import multer from 'multer';

/** A pool whose requests start, or are replays of `stored`. fails[name] is thrown where it says. busy: so often another copy runs. */
function makePool({ fails = {}, stored, busy = 0 } = {}) {
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
      const begun =
        name === 'begin' && busy-- > 0
          ? { verdict: 'busy', token: null, status: 409, headers: '{"retry-after":"1"}', body: Buffer.from('busy') }
          : (stored ?? { token: 'token', status: null, headers: null, body: null });
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

const NO_TRACE = [undefined, undefined];

const SERVERS = {
  async express(pool, handle, t, { parser = express.json(), inner = [], ...options } = {}) {
    const app = express();
    app.disable('x-powered-by');
    app.use((request, response, next) => {
      response.set({ 'x-request-id': request.get('x-request-id'), vary: 'Origin' });
      next();
    });
    app.use(parser, forExpress({ pool, ...options }), ...inner);
    app.post('/orders', handle);
    // eslint-disable-next-line no-unused-vars -- Express counts the parameters
    app.use((error, request, response, next) => response.status(500).json({ message: error.message }));
    const server = app.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    return `http://127.0.0.1:${server.address().port}`;
  },
  async fastify(pool, handle, t, { register, ...options } = {}) {
    const app = Fastify();
    app.addHook('onRequest', async (request, reply) => {
      reply.headers({ 'x-request-id': request.headers['x-request-id'], vary: 'Origin' });
    });
    await register?.(app);
    await app.register(forFastify, { pool, ...options });
    app.post('/orders', handle);
    t.after(() => app.close());
    return app.listen({ port: 0, host: '127.0.0.1' });
  },
};
const HANDLERS = {
  express: (request, response) => response.set({ location: '/orders/1', etag: '"1"' }).status(201).send('made'),
  fastify: (request, reply) => reply.headers({ location: '/orders/1', etag: '"1"' }).code(201).send('made'),
};

async function post(address, id = '1', { body = '{"a":1}', ...others } = {}) {
  const type = typeof body === 'string' ? { 'content-type': 'application/json' } : {};
  const headers = { ...type, 'idempotency-key': '"k"', 'x-request-id': id, ...others };
  const response = await fetch(`${address}/orders`, { method: 'POST', headers, body });
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
    assert.deepEqual(pool.values.begin, [
      '"k"',
      'POST',
      '/orders',
      Buffer.from('{"a":1}'),
      '',
      '24 hours',
      true,
      ...NO_TRACE,
    ]);
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
    Object.assign(new Error('canceling statement due to lock timeout'), { severity: 'ERROR', code: '55P03' }),
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

for (const [name, serve] of Object.entries(SERVERS)) {
  test(`${name}: a program that throws after its response sends and stores this response`, async (t) => {
    const pool = makePool();
    const answer = await post(
      await serve(
        pool,
        async (request, reply) => {
          HANDLERS[name](request, reply);
          throw new Error('too late');
        },
        t,
      ),
    );
    const { location, 'content-length': length } = answer.headers;
    assert.deepEqual([answer.status, answer.text, location, length], [201, 'made', '/orders/1', '4']);
    assert.deepEqual(pool.values.complete.slice(1, 2), [201]);
    assert.deepEqual([pool.calls.at(-1), answer.headers['idempotency-expires']], ['COMMIT', 'tomorrow']);
    assert.equal(answer.headers['content-type'], JSON.parse(pool.values.complete[2])['content-type']);
  });

  test(`${name}: the events of a request continue its trace`, async (t) => {
    const pool = makePool();
    await post(await serve(pool, HANDLERS[name], t), '1', { traceparent: '00-aa-bb-01', tracestate: 'a=b' });
    assert.deepEqual(pool.values.begin.slice(7), ['00-aa-bb-01', 'a=b']);
  });

  test(`${name}: a copy waits a moment for the one that runs, without a connection`, async (t) => {
    const pool = makePool({ busy: 2 });
    assert.equal((await post(await serve(pool, HANDLERS[name], t))).status, 201);
    const look = ['BEGIN', 'begin', 'ROLLBACK'];
    assert.deepEqual(pool.calls, [...look, ...look, 'BEGIN', 'begin', 'complete', 'COMMIT']);
    assert.equal(pool.released.length, 3);
  });

  test(`${name}: a copy waits no longer than the option says`, async (t) => {
    for (const [wait, looks] of [
      [0, 1],
      [25, 3],
    ]) {
      const pool = makePool({ busy: 100 });
      const answer = await post(await serve(pool, HANDLERS[name], t, { wait }));
      assert.deepEqual([answer.status, answer.headers['retry-after'], pool.released.length], [409, '1', looks]);
    }
  });

  test(`${name}: the program makes one response for all copies, whatever encodings the first one accepts`, async (t) => {
    const pool = makePool();
    let seen;
    const handle = (request, reply) => {
      seen = request.headers['accept-encoding'];
      return HANDLERS[name](request, reply);
    };
    await post(await serve(pool, handle, t), '1', { 'accept-encoding': 'gzip' });
    assert.equal(seen, 'identity');
  });

  test(`${name}: a fingerprint of the service is compared in place of the body`, async (t) => {
    const pool = makePool();
    const fingerprint = async (request) => `order ${request.body.a}`;
    await post(await serve(pool, HANDLERS[name], t, { fingerprint }));
    assert.deepEqual(pool.values.begin[3], Buffer.from('order 1'));
  });
}

test('express: a compression behind the middleware does not decide for the other copies', async (t) => {
  const inner = [compression({ threshold: 0 })];
  const pool = makePool();
  const answer = await post(await SERVERS.express(pool, HANDLERS.express, t, { inner }));
  assert.deepEqual([answer.text, pool.values.complete[3]], ['made', Buffer.from('made')]);
  assert.equal(JSON.parse(pool.values.complete[2])['content-encoding'], undefined);
});

test('express: a compression in front of the middleware compresses for each copy', async (t) => {
  const json = express.json();
  const compress = compression({ threshold: 0 });
  const parser = (request, response, next) => compress(request, response, () => json(request, response, next));
  const pool = makePool();
  const answer = await post(await SERVERS.express(pool, HANDLERS.express, t, { parser }));
  assert.deepEqual([answer.headers['content-encoding'], answer.text], ['gzip', 'made']);
  assert.deepEqual(pool.values.complete[3], Buffer.from('made'));
});

/** A form with a field and, unless it is undefined, a file. Each one has another boundary. */
function form(content, filename = 'a.txt') {
  const data = new FormData();
  data.append('title', 'photo');
  if (content !== undefined) {
    data.append('file', new Blob([content], { type: 'text/plain' }), filename);
  }
  return data;
}

const UPLOADS = {
  'express, multer in memory': ['express', () => ({ parser: multer().single('file') })],
  'express, multer with any files': ['express', () => ({ parser: multer().any() })],
  'express, multer on disk': ['express', (directory) => ({ parser: multer({ dest: directory }).array('file') })],
  'express, express-fileupload': ['express', () => ({ parser: fileUpload() })],
  'express, express-fileupload on disk': [
    'express',
    (tempFileDir) => ({ parser: fileUpload({ useTempFiles: true, tempFileDir }) }),
  ],
  'express, raw': ['express', () => ({ parser: express.raw({ type: 'multipart/form-data' }) })],
  'fastify, parts in the body': ['fastify', () => ({ register: attach(true) })],
  'fastify, values in the body': ['fastify', () => ({ register: attach('keyValues') })],
};

function attach(attachFieldsToBody) {
  return (app) => app.register(multipart, { attachFieldsToBody });
}

for (const [name, [server, make]] of Object.entries(UPLOADS)) {
  test(`files are a part of what is compared: ${name}`, async (t) => {
    const directory = await mkdtemp(join(tmpdir(), 'inboxd-'));
    t.after(() => rm(directory, { recursive: true }));
    const pool = makePool();
    const address = await SERVERS[server](pool, HANDLERS[server], t, make(directory));
    const compared = [];
    for (const body of [form('one'), form('one'), form('two'), form()]) {
      assert.equal((await post(address, '1', { body })).status, 201);
      compared.push(String(pool.values.begin[3]));
    }
    assert.equal(compared[1], compared[0]);
    assert.equal(new Set(compared).size, 3);
  });
}

test('all that a field has is compared, also if a client calls its members like those of a part', async (t) => {
  const pool = makePool();
  const address = await SERVERS.express(pool, HANDLERS.express, t, { parser: multer().none() });
  const compared = [];
  for (const amount of ['1', '2']) {
    const body = new FormData();
    const members = { '[type]': 'field', '[fields][a]': '1', '[value]': '1', '[amount]': amount };
    Object.entries(members).forEach(([member, text]) => body.append(`order${member}`, text));
    assert.equal((await post(address, '1', { body })).status, 201);
    compared.push(String(pool.values.begin[3]));
  }
  assert.notEqual(compared[0], compared[1]);
});

const HIDDEN = {
  'express, a parser that the middleware does not know': [
    'express',
    () => ({ parser: (request, response, next) => hide(request).then(next, next) }),
  ],
  'express, a storage elsewhere': ['express', () => ({ parser: multer({ storage: elsewhere }).single('file') })],
  'express, a Map': [
    'express',
    () => ({ parser: (request, response, next) => hide(request, new Map([['a', 1]])).then(next, next) }),
  ],
  'fastify, a consumer of the files': [
    'fastify',
    () => ({
      register: (app) => app.register(multipart, { attachFieldsToBody: true, onFile: (part) => drain(part.file) }),
    }),
  ],
  'fastify, nothing in the body': ['fastify', () => ({ register: (app) => app.register(multipart) })],
};
const elsewhere = {
  _handleFile: (request, file, done) =>
    drain(file.stream).then(() => done(null, { location: 's3://a/b', size: 3 }), done),
  _removeFile: (request, file, done) => done(null),
};

async function drain(stream) {
  for await (const chunk of stream) {
    assert.ok(chunk);
  }
}

async function hide(request, body = { title: 'photo' }) {
  await drain(request);
  request.body = body;
}

for (const [name, [server, make]] of Object.entries(HIDDEN)) {
  test(`a body of which a part may be missing is refused: ${name}`, async (t) => {
    const pool = makePool();
    const body = name.endsWith('Map') ? '{}' : form('one');
    const answer = await post(await SERVERS[server](pool, HANDLERS[server], t, make()), '1', { body });
    assert.deepEqual([answer.status, JSON.parse(answer.text).type, pool.calls], [415, 'request-unread', []]);
  });
}

test('express: the limit for a request whose client has gone is an option', async (t) => {
  logged(t);
  const pool = makePool();
  let begun;
  const started = new Promise((resolve) => (begun = resolve));
  const address = await SERVERS.express(pool, () => begun(), t, { abandonAfter: 1 });
  const aborter = new AbortController();
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' };
  const asked = fetch(`${address}/orders`, { method: 'POST', headers, body: '{}', signal: aborter.signal });
  await started;
  aborter.abort();
  await assert.rejects(asked);
  for (let i = 0; i < 500 && pool.released.length === 0; i++) {
    await setTimeout(10);
  }
  assert.match(String(pool.released[0]), /the client has gone/);
});

/** A pool of two connections, as `pg` has it: connect() waits for a free one. */
function makeSmallPool(options) {
  const pool = makePool();
  const { connect } = pool;
  const waiting = [];
  let free = 2;
  pool.options = { max: 2, ...options };
  pool.connect = async () => {
    free > 0 ? (free -= 1) : await new Promise((resolve) => waiting.push(resolve));
    const release = () => (waiting.length > 0 ? waiting.shift()() : (free += 1));
    return { ...(await connect()), release };
  };
  return pool;
}

test('express: a program can take another connection of the pool', { timeout: 10_000 }, async (t) => {
  const pool = makeSmallPool();
  const handle = async (request, response) => {
    await setTimeout(100); // meanwhile the other requests have their connections
    (await pool.connect()).release();
    response.status(201).send('made');
  };
  const address = await SERVERS.express(pool, handle, t);
  const answers = await Promise.all(Array.from({ length: 5 }, () => post(address)));
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
});

test('express: a request does not wait for ever for a connection', { timeout: 10_000 }, async (t) => {
  logged(t);
  const pool = makeSmallPool({ connectionTimeoutMillis: 20 });
  const address = await SERVERS.express(
    pool,
    async (request, response) => {
      await setTimeout(200);
      response.send('made');
    },
    t,
  );
  const answers = await Promise.all([post(address), post(address)]);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 503]);
  assert.equal((await post(address)).status, 200);
});

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

test('fastify: an error of a later hook does not keep the client waiting', async (t) => {
  const address = await SERVERS.fastify(makePool(), HANDLERS.fastify, t, {
    register: (app) =>
      app.addHook('onRoute', (route) => {
        route.onSend = async (request, reply, payload) => {
          if (reply.statusCode === 201) {
            throw new Error('broken');
          }
          return payload;
        };
      }),
  });
  const headers = { 'content-type': 'application/json', 'idempotency-key': 'k' };
  const aborter = new AbortController();
  setTimeout(5000, undefined, { ref: false }).then(() => aborter.abort());
  const options = { method: 'POST', headers, body: '{}', signal: aborter.signal };
  assert.equal((await fetch(`${address}/orders`, options)).status, 500);
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
