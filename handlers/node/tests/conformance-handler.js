// The test handler of the conformance kit (tests/conformance/README.md of inboxd).
//
//     node conformance-handler.js STYLE
//
// STYLE is the kind of the functions: async, sync (without a promise), or batch (functions for batches).

import { setTimeout as sleep } from 'node:timers/promises';
import { Dead, Done, Handler, Retry, SETTLED, Skip, Snooze, Verdict } from 'inboxd';

const [, , style] = process.argv;
const option = (name) => process.env[`CONFORMANCE_${name}`];
const number = (name) => (option(name) === undefined ? undefined : Number(option(name)));

const handler = new Handler(option('NAME'), {
  maxInFlight: number('MAX_IN_FLIGHT'),
  timeoutMs: number('TIMEOUT_MS'),
  consumer: option('CONSUMER'),
  batch: { max: number('BATCH_MAX'), waitMs: number('BATCH_WAIT_MS'), ordered: option('ORDERED') === '1' },
});

// Everything but work.
function act(delivery) {
  const { data, type, attributes } = delivery.event;
  const { reason, code } = attributes;
  const delayMs = attributes.delayms === undefined ? undefined : Number(attributes.delayms);
  switch (type) {
    case 'retry':
      throw new Retry(reason, { delayMs, code });
    case 'dead':
      throw new Dead(reason, { code });
    case 'snooze':
      throw new Snooze(delayMs, reason, { code });
    case 'skipped':
      throw new Skip();
    case 'raise':
      throw new RangeError(reason);
    case 'settled':
      return SETTLED;
    case 'result':
      return data;
    case 'emit':
      return new Done(undefined, data);
    case 'extend':
      return delivery.extend(Number(attributes.timeoutms));
    case 'window':
      return handler.setWindow(Number(attributes.window));
    case 'echo':
      return echo(delivery);
  }
}

function echo({ claim, seq, attempt, replay, headers, event }) {
  const { id, source, type, topic, partition, offset, data } = event;
  return {
    ...{ claim, seq, attempt, replay, id, source, type, topic, partition, offset },
    traceparent: event.trace?.headers().traceparent,
    key_base64: encoded(event.key),
    ...(Buffer.isBuffer(data) ? { data_base64: encoded(data) } : { data }),
    headers: headers.map(([name, value]) => [String(name), value && encoded(value)]),
  };
}

function encoded(value) {
  return value === undefined ? undefined : Buffer.from(value).toString('base64');
}

function work(delivery) {
  return sleep(Number(delivery.event.attributes.workms), undefined, { signal: delivery.signal });
}

const functions = {
  sync: (delivery) => (delivery.event.type === 'work' ? work(delivery) : act(delivery)),
  async: async (delivery) => (delivery.event.type === 'work' ? await work(delivery) : act(delivery)),
  batch: async (batch) => {
    for (const delivery of batch) {
      try {
        delivery.setVerdict(await functions.async(delivery));
      } catch (error) {
        delivery.setVerdict(error instanceof Verdict ? error : new Retry(String(error)));
      }
    }
  },
};

const register = style === 'batch' ? 'onBatch' : 'on';
for (const part of (option('SUBSCRIBE') ?? '*').split(';')) {
  const [topic, ...types] = part.split(' ');
  handler[register]({ topic, types }, functions[style]);
}
await handler.run();
