// A service with idempotency keys for tests/languages of the repository: node orders-service.js express|fastify PORT. It does what
// handlers/python/tests/orders_service.py does.

import { Readable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import pg from 'pg';

const pool = new pg.Pool({ max: 20 });
pool.on('error', () => undefined); // of an idle connection; without a listener it would end the process
const options = {
  pool,
  scope: ({ headers }) => (headers['x-tenant'] === 'nobody' ? undefined : (headers['x-tenant'] ?? '')),
  required: process.env.KEY_REQUIRED !== 'no',
};
const html = Buffer.concat([gzipSync(Buffer.alloc(100)), Buffer.of(0, 255)]);

async function* broken() {
  yield 'one';
  throw new Error('as the test wants it');
}

/** [status, headers, body] */
async function make(connection, order, tenant) {
  await connection.query('INSERT INTO orders (id, tenant) VALUES ($1, $2)', [order.id, tenant]);
  await connection.query(`SELECT inbox.emit('orders', $1, 'order.created', '{}')`, [String(order.id)]);
  if (order.then === 'wait') {
    await setTimeout(3_600_000);
  }
  if (order.then === 'slow') {
    await setTimeout(order.ms);
  }
  if (order.then === 'hide') {
    await connection.query('SELECT 1 / 0').catch(() => undefined);
  }
  if (order.then === 'raise') {
    throw new Error('as the test wants it');
  }
  if (order.then === 'bytes') {
    return [200, { 'content-type': 'text/html', 'content-encoding': 'x-test', vary: ['a', 'b'] }, html];
  }
  if (order.then === 'large') {
    return [201, {}, Buffer.alloc((1 << 20) + 1)];
  }
  if (order.then === 'nothing') {
    return [204, {}, ''];
  }
  const headers = { 'content-type': 'application/json', location: `/orders/${order.id}`, 'set-cookie': 'a=b' };
  return [order.status ?? 201, headers, JSON.stringify({ id: order.id, made: String(process.hrtime.bigint()) })];
}

async function express(port) {
  const { default: express } = await import('express');
  const { idempotency } = await import('inboxd/express');
  const app = express();
  app.use(express.json(), idempotency(options));
  app.get('/orders', (request, response) => response.send(response.locals.connection ? 'yes' : 'no'));
  app.post('/orders', async (request, response, next) => {
    try {
      const [status, headers, body] = await make(
        response.locals.connection,
        request.body,
        request.headers['x-tenant'] ?? '',
      );
      if (request.body.then === 'never') {
        response.write('one');
        return;
      }
      if (request.body.then === 'breaks') {
        response.write('one');
        throw new Error('as the test wants it');
      }
      response.writeHead(status, headers);
      if (body.length > 0) {
        response.write(body.subarray?.(0, 5) ?? body.slice(0, 5));
      }
      response.end(body.subarray?.(5) ?? body.slice(5));
      if (request.body.then === 'answered') {
        throw new Error('as the test wants it');
      }
    } catch (error) {
      next(error);
    }
  });
  app.listen(port, '127.0.0.1');
}

async function fastify(port) {
  const { default: Fastify } = await import('fastify');
  const { idempotency } = await import('inboxd/fastify');
  const app = Fastify({ bodyLimit: 100_000 });
  await app.register(idempotency, options);
  app.get('/orders', async (request) => (request.connectionOfKey ? 'yes' : 'no'));
  app.post('/orders', async (request, reply) => {
    const [status, headers, body] = await make(
      request.connectionOfKey,
      request.body,
      request.headers['x-tenant'] ?? '',
    );
    if (request.body.then === 'never') {
      return reply.hijack();
    }
    reply.code(status).headers(headers);
    if (request.body.then === 'breaks') {
      return reply.send(Readable.from(broken()));
    }
    reply.send(body);
    if (request.body.then === 'answered') {
      throw new Error('as the test wants it');
    }
    return reply;
  });
  await app.listen({ port, host: '127.0.0.1' });
}

await { express, fastify }[process.argv[2]](Number(process.argv[3]));
