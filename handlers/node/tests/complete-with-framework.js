// Completes messages in transactions of frameworks: node complete-with-framework.js FRAMEWORK. tests/languages of the repository calls it.

import assert from 'node:assert/strict';
import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { ClaimLost } from 'inboxd';
import knex from 'knex';
import { CompiledQuery, Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import postgres from 'postgres';
import { DataSource } from 'typeorm';
import { Delivery } from '../dist/delivery.js';

function delivery(number) {
  const params = { delivery: { claim: `${9000 + number}.1.17` }, event: { id: `m${number}`, source: 's' } };
  return new Delivery({ timeoutMs: 30_000 }, `d${number}`, params, 0, undefined);
}

// Of each framework: the database, transaction(work), what complete() gets of a transaction or of the database, and the end.
const frameworks = {
  async knex() {
    const db = knex({ client: 'pg', connection: {} });
    return {
      db,
      transaction: (work) => db.transaction(work),
      executor: (trx) => (text, values) => trx.raw(text.replace(/\$\d+/g, '?'), values),
      end: () => db.destroy(),
    };
  },

  async typeorm() {
    const db = await new DataSource({ type: 'postgres' }).initialize();
    return {
      db,
      transaction: (work) => db.transaction(work),
      executor: (manager) => manager,
      end: () => db.destroy(),
    };
  },

  async drizzle() {
    const pool = new pg.Pool();
    const db = drizzle(pool);
    const query = (text, values) =>
      sql.join(
        text.split(/\$\d+/).flatMap((part, i) => (i > 0 ? [sql`${values[i - 1]}`, sql.raw(part)] : [sql.raw(part)])),
      );
    return {
      db,
      transaction: (work) => db.transaction(work),
      executor: (tx) => (text, values) => tx.execute(query(text, values)),
      end: () => pool.end(),
    };
  },

  async kysely() {
    const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool() }) });
    return {
      db,
      transaction: (work) => db.transaction().execute(work),
      executor: (trx) => (text, values) => trx.executeQuery(CompiledQuery.raw(text, values)),
      end: () => db.destroy(),
    };
  },

  async postgres() {
    const db = postgres({ onnotice() {} });
    return {
      db,
      transaction: (work) => db.begin(work),
      executor: (tx) => (text, values) => tx.unsafe(text, values),
      end: () => db.end(),
    };
  },
};

const { db, transaction, executor, end } = await frameworks[process.argv[2]]();

async function query(tx, text) {
  const execute = executor(tx);
  await (typeof execute === 'function' ? execute(text, []) : execute.query(text));
}

await assert.rejects(delivery(2).complete(executor(db)), /open transaction/);
await transaction(async (tx) => {
  await query(tx, 'CREATE TABLE effects ()');
  await delivery(1).complete(executor(tx), { invoice: 1 }, [{ type: 'made', topic: 'invoices', data: 1 }]);
});
const lost = transaction(async (tx) => {
  await query(tx, 'CREATE TABLE effects_of_a_lost_claim ()');
  await delivery(7).complete(executor(tx));
});
await assert.rejects(lost, (error) => error instanceof ClaimLost && error.claim === '9007.1.17');
await end();
