// The connection: hello, deadlines, drain, refusals. The conformance kit tests the rest.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Handler, Refused, VERSION } from 'inboxd';
import { setUp, silent, until } from './sidecar.js';

const done = () => {};

test('hello has the options', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(done), { consumer: 'search', instance: 'pod-1', maxInFlight: 7, timeoutMs: 12_000 });
  assert.deepEqual(await sidecar.accept(), {
    protocol: [1],
    handler: 'billing',
    instance: 'pod-1',
    client: `inboxd-node/${VERSION}`,
    max_in_flight: 7,
    timeout_ms: 12_000,
    batch: { max: 1, wait_ms: 0 },
    consumer: 'search',
  });
});

test('the window holds after a reconnect', async (t) => {
  const { sidecar, start } = await setUp(t);
  const handler = start((handler) => handler.on(done));
  await sidecar.accept();
  sidecar.deliver(1);
  assert.deepEqual(await sidecar.answer(), { status: 'done' });
  handler.setWindow(3);
  assert.deepEqual(await sidecar.read(), { jsonrpc: '2.0', method: 'window', params: { max_in_flight: 3 } });
  assert.equal((await sidecar.accept()).max_in_flight, 3);
});

test('the log says that the connection is back', async (t) => {
  const { sidecar, start } = await setUp(t);
  const lines = [];
  start((handler) => handler.on(done), { logger: { ...silent, warn: (line) => lines.push(line) } });
  await sidecar.accept();
  assert.doesNotMatch(lines.join('\n'), /again/);
  await sidecar.accept();
  sidecar.deliver(1);
  await sidecar.answer();
  assert.match(lines.at(-1), /^connected to inboxd again after [0-9.]+ s$/);
});

test('extend moves the deadline', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on((delivery) => delivery.extend(90_000)));
  await sidecar.accept();
  sidecar.deliver(1);
  assert.deepEqual((await sidecar.read()).params, { delivery: 'd1', timeout_ms: 90_000 });
  assert.deepEqual(await sidecar.answer(), { status: 'done' });
});

test('the deadline is not extended for ever', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(() => sleep(1200)), { timeoutMs: 300, extendUpToMs: 700 });
  await sidecar.accept({ timeout_ms: 300 });
  sidecar.deliver(1);
  const delivered = performance.now();
  let end = 0;
  for (let line = await sidecar.read(); line.method === 'extend'; line = await sidecar.read()) {
    end = performance.now() - delivered + line.params.timeout_ms;
  }
  assert.ok(Math.abs(end - 700) < 50, `the last extension ends after ${end} ms`);
});

test('a timeout of a year does not extend all the time', async (t) => {
  const { sidecar, start } = await setUp(t);
  start((handler) => handler.on(() => sleep(100)), { timeoutMs: 31_622_400_000, extendUpToMs: Infinity });
  await sidecar.accept({ timeout_ms: 31_622_400_000 });
  sidecar.deliver(1);
  assert.deepEqual(await sidecar.answer(), { status: 'done' });
});

test('a refusal is thrown', async (t) => {
  const { sidecar, socketPath } = await setUp(t);
  const serving = new Handler('billing', { socketPath, logger: silent }).on(done).serve();
  await sidecar.connection();
  sidecar.send({ id: 1, error: { code: -32003, message: 'an equal subscription' } });
  await assert.rejects(serving, (error) => {
    assert.ok(error instanceof Refused);
    assert.match(error.message, /an equal subscription/);
    return error.code === -32003;
  });
});

test('stop() drains', async (t) => {
  const { sidecar, start } = await setUp(t);
  const handler = start((handler) => handler.on(() => sleep(50)));
  await sidecar.accept();
  sidecar.deliver(1);
  await sleep(10);
  const stopped = handler.stop();
  const { id, method } = await sidecar.read();
  assert.equal(method, 'drain');
  sidecar.deliver(2);
  assert.deepEqual(await sidecar.answer(2), { status: 'skipped' });
  assert.deepEqual(await sidecar.answer(1), { status: 'done' });
  sidecar.send({ id, result: { in_flight: 0 } });
  await stopped;
  assert.equal(await sidecar.read(), undefined);
});

test('a drain that takes too long is given up', async (t) => {
  const { sidecar, start } = await setUp(t);
  const reasons = [];
  const wait = async ({ signal }) =>
    sleep(60_000, undefined, { signal }).catch(() => reasons.push(signal.reason.reason));
  const handler = start((handler) => handler.on(wait), { drainTimeoutMs: 50 });
  await sidecar.accept();
  sidecar.deliver(1);
  await sleep(20);
  const stopped = handler.stop();
  assert.equal((await sidecar.read()).method, 'drain');
  await stopped;
  await until(() => reasons.length === 1);
  assert.deepEqual(reasons, ['connection_lost']);
});

test('a handler can be started again', async (t) => {
  const { sidecar, start } = await setUp(t);
  const handler = start((handler) => handler.on(done));
  await sidecar.accept();
  sidecar.deliver(1);
  await sidecar.answer();
  await assert.rejects(handler.serve(), /runs already/);
  const stopped = handler.stop();
  sidecar.send({ id: (await sidecar.read()).id, result: { in_flight: 0 } });
  await stopped;
  handler.serve();
  assert.equal((await sidecar.accept()).handler, 'billing');
});

test('a handler without a function is not started', async () => {
  await assert.rejects(new Handler('billing').serve(), /no function/);
});

test('stop() before serve() does nothing', async () => {
  await new Handler('billing').stop();
});
