// What a service needs: several functions, verdicts, a long function, events to publish, and a stop without a loss.

import { setTimeout as sleep } from 'node:timers/promises';
import { Dead, Done, Handler, Snooze } from 'inboxd';

const totals = new Map();
const handler = new Handler('totals', { maxInFlight: 32, timeoutMs: 30_000 });

handler.on({ topic: 'orders', types: 'order.*' }, ({ event }) => {
  if (event.isTombstone) {
    return undefined;
  }
  const { customer, cents } = event.data;
  if (!Number.isInteger(cents)) {
    throw new Dead('no cents in the order', { code: 'SCHEMA' });
  }
  totals.set(customer, (totals.get(customer) ?? 0) + cents);
  return { totalCents: totals.get(customer) };
});

handler.on({ topic: 'orders', types: 'order.report' }, async ({ signal }) => {
  if (new Date().getHours() < 6) {
    throw new Snooze(600_000, 'reports begin at six');
  }
  await sleep(60_000, undefined, { signal }); // the library extends the deadline; a cancel aborts the signal
  return new Done(undefined, [{ type: 'report.made', topic: 'reports', data: Object.fromEntries(totals) }]);
});

await handler.run();
