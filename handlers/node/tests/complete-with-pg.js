// Completes messages that a handler has: node complete-with-pg.js FUNCTION. tests/languages of the repository calls it.

import pg from 'pg';
import assert from 'node:assert/strict';
import { Done, Retry, SETTLED } from 'inboxd';
import { Batch, Delivery } from '../dist/delivery.js';

const pool = new pg.Pool();

function delivery(number) {
  const params = { delivery: { claim: `${9000 + number}.1.17` }, event: { id: `m${number}`, source: 's' } };
  return new Delivery({ timeoutMs: 30_000 }, `d${number}`, params, 0, undefined);
}

async function inOneTransaction(work) {
  const client = await pool.connect();
  await client.query('BEGIN');
  await work(client);
  await client.query('COMMIT');
  client.release();
}

const functions = {
  inOwnTransaction: () =>
    inOneTransaction(async (client) => {
      await delivery(1).complete(client, { invoice: 1 });
      await delivery(2).complete(client);
    }),

  async inTransaction() {
    const { table } = await delivery(1).transaction(pool, async (client) => {
      await client.query('CREATE TABLE effects ()');
      return { table: 'effects' };
    });
    return table;
  },

  async withEvents() {
    const headers = { h: '1' };
    const events = [
      { type: 'made', topic: 'invoices', key: 'c-1', data: { n: 1 }, headers },
      { type: 'raw', topic: 'invoices', data: Buffer.of(255) },
    ];
    await delivery(1).transaction(pool, () => new Done(undefined, events));
  },

  async aBatch() {
    const batch = new Batch([1, 2, 3].map(delivery), 'none');
    batch.deliveries[1].setVerdict(new Retry('locked'));
    await inOneTransaction((client) => batch.complete(client, [{ n: 1 }, undefined]));
  },

  async aBatchWithEvents() {
    const batch = new Batch([1, 2, 3].map(delivery), 'none');
    await inOneTransaction(async (client) => {
      await batch.deliveries[1].complete(client, undefined, [{ type: 'made', topic: 'invoices' }]);
      batch.deliveries[1].setVerdict(SETTLED);
      await batch.complete(client, [{ n: 1 }, undefined]);
    });
  },

  async aRepeatedBatch() {
    const batch = new Batch([1, 2, 3].map(delivery), 'none');
    const client = await pool.connect();
    await client.query('BEGIN');
    await batch.deliveries[1].complete(client);
    await client.query('ROLLBACK');
    client.release();
    await inOneTransaction((client) => batch.complete(client));
  },

  async lost() {
    const batch = new Batch([1, 7].map(delivery), 'none');
    const working = batch.transaction(pool, (client) => client.query('CREATE TABLE effects ()'));
    const error = await working.catch((error) => error);
    assert.equal(error.cause.code, 'IB001');
    return `${error.name} ${error.claim}`;
  },

  /** Another transaction changes a row between the snapshot and the UPDATE of the first try: 40001. */
  async repeated() {
    await pool.query('CREATE TABLE counters AS SELECT 0 AS n');
    const batch = new Batch([2, 3].map(delivery), 'none');
    const said = [];
    let tries = 0;
    for (const one of [delivery(1), batch]) {
      tries = 0;
      const work = async (client) => {
        tries += 1;
        await client.query('SELECT 1');
        if (tries === 1) {
          await pool.query('UPDATE counters SET n = n + 1');
        }
        await client.query('UPDATE counters SET n = n + 1');
        return one === batch ? undefined : new Done({ tries }, [{ type: 'made', topic: 'invoices' }]);
      };
      await assert.rejects(one.transaction(pool, work, { isolation: 'repeatable read', repeats: 0 }), {
        code: '40001',
      });
      tries = 0;
      await one.transaction(pool, work, { isolation: 'serializable' });
      said.push(tries);
    }
    return said.join(' ');
  },

  async withoutTransaction() {
    const client = await pool.connect();
    for (const one of [client, pool]) {
      await assert.rejects(delivery(1).complete(one), /open transaction/);
    }
    client.release();
    return 'refused twice';
  },
};

console.log((await functions[process.argv[2]]()) ?? '');
await pool.end();
