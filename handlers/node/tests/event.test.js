// The event and the delivery.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CloudEvent } from 'cloudevents';
import { TraceContext } from 'inboxd';
import { InboxEvent } from '../dist/event.js';
import { setUp } from './sidecar.js';

const MEMBERS = {
  specversion: '1.0',
  id: 'A1',
  source: 'urn:shop',
  type: 'order.created',
  subject: 'order 17',
  time: '2026-01-02T03:04:05.123456789Z',
  datacontenttype: 'application/json',
  partitionkey: 'c-17',
  kafkatopic: 'orders',
  kafkapartition: 3,
  kafkaoffset: '9007199254740993',
  traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  tracestate: 'a=b',
  tenant: 't1',
  data: { order: 17 },
};

test('the attributes of an event', () => {
  const event = new InboxEvent(MEMBERS);
  const { id, source, type, subject, topic, partition, offset, key, data, isTombstone } = event;
  assert.deepEqual(
    { id, source, type, subject, topic, partition, offset, key, data, isTombstone },
    {
      ...{ id: 'A1', source: 'urn:shop', type: 'order.created', subject: 'order 17', topic: 'orders', partition: 3 },
      ...{ offset: '9007199254740993', key: 'c-17', data: { order: 17 }, isTombstone: false },
    },
  );
  assert.equal(event.time.toISOString(), '2026-01-02T03:04:05.123Z');
  const { data: payload, ...attributes } = MEMBERS;
  assert.deepEqual(event.attributes, attributes);
  assert.equal(JSON.stringify(event), JSON.stringify(MEMBERS));
});

const PAYLOADS = [
  [{ data: 1.5 }, 1.5, false],
  [{ data: null }, null, false],
  [{ data_base64: '/w==' }, Buffer.of(255), false],
  [{ data_base64: '' }, Buffer.of(), false],
  [{}, undefined, true],
  [{ data_base64: null }, undefined, true],
];

for (const [members, data, isTombstone] of PAYLOADS) {
  test(`the payload of ${JSON.stringify(members)}`, () => {
    const event = new InboxEvent(members);
    assert.deepEqual([event.data, event.isTombstone], [data, isTombstone]);
  });
}

test('what is absent is empty or undefined', () => {
  const { id, type, time, subject, key, trace, topic, partition, offset } = new InboxEvent({
    time: null,
    partitionkey: null,
  });
  assert.deepEqual([id, type, topic, partition, offset], ['', '', '', 0, '0']);
  assert.deepEqual([time, subject, key, trace], [undefined, undefined, undefined, undefined]);
  assert.equal(new InboxEvent({ time: 'yesterday' }).time, undefined);
  assert.deepEqual(new InboxEvent({ partitionkeybase64: '/w==' }).key, Buffer.of(255));
});

test('the type of the package cloudevents', () => {
  const event = new InboxEvent(MEMBERS).toCloudEvent(CloudEvent);
  assert.ok(event instanceof CloudEvent);
  assert.deepEqual([event.id, event.source, event.type, event.tenant], ['A1', 'urn:shop', 'order.created', 't1']);
  assert.deepEqual(event.data, { order: 17 });
  const bytes = new InboxEvent({ ...MEMBERS, data: undefined, data_base64: '/w==' }).toCloudEvent(CloudEvent);
  assert.equal(bytes.data_base64, '/w==');
  const { data: payload, ...tombstone } = MEMBERS;
  assert.equal(new InboxEvent(tombstone).toCloudEvent(CloudEvent).data, undefined);
});

test('the trace', () => {
  const { trace } = new InboxEvent(MEMBERS);
  assert.equal(trace.traceId, '4bf92f3577b34da6a3ce929d0e0e4736');
  assert.ok(trace.sampled);
  assert.deepEqual(trace.headers(), { traceparent: MEMBERS.traceparent, tracestate: MEMBERS.tracestate });
  const child = trace.child();
  assert.equal(child.traceId, trace.traceId);
  assert.notEqual(child.parentId, trace.parentId);
  assert.deepEqual(TraceContext.parse(child.headers().traceparent, 'a=b'), child);
});

const NO_TRACES = [
  undefined,
  '',
  '00-abc-def-01',
  'ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  '00-00000000000000000000000000000000-00f067aa0ba902b7-01',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x',
];

test('a trace that is not valid is undefined', () => {
  assert.deepEqual(
    NO_TRACES.filter((text) => TraceContext.parse(text)),
    [],
  );
  assert.ok(TraceContext.parse('01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-later'));
});

test('headers keep their order', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) => handler.on((delivery) => void seen.push(delivery)));
  await sidecar.accept();
  const raw = { base64: '/w==' };
  sidecar.deliver(1, {
    headers: [
      ['a', '1'],
      ['b', null],
      ['a', raw],
      [raw, '2'],
    ],
  });
  await sidecar.answer();
  const [delivery] = seen;
  assert.deepEqual(delivery.headers, [
    ['a', '1'],
    ['b', null],
    ['a', Buffer.of(255)],
    [Buffer.of(255), '2'],
  ]);
  assert.deepEqual(
    ['a', 'b', 'c'].map((name) => delivery.header(name)),
    [Buffer.of(255), null, undefined],
  );
});

test('the delivery', async (t) => {
  const { sidecar, start } = await setUp(t);
  const seen = [];
  start((handler) => handler.on((delivery) => void seen.push(delivery)));
  await sidecar.accept();
  const seq = '9223372036854775807';
  sidecar.deliver(1, {
    delivery: { seq, attempt: 3, replay: true, deadline: '2026-01-02T03:04:05Z', consumer: 'search' },
  });
  await sidecar.answer();
  const [{ id, claim, attempt, maxAttempts, replay, deadline, consumer }] = seen;
  assert.deepEqual([id, claim, seen[0].seq, attempt, maxAttempts], ['d1', '1.1.17', seq, 3, 10]);
  assert.deepEqual([replay, deadline.getUTCFullYear(), consumer], [true, 2026, 'search']);
  assert.match(String(seen[0]), /attempt 3 of order.created A1/);
});
