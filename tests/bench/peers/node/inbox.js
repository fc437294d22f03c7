// pg-transactional-outbox as an inbox: kafkajs stores each message in a transaction of its own, the library's
// polling listener handles them, in any order. Settings are the kindest of those tried: batches of 500, polled
// every 10 ms, a backlog so short that its query over all that waits stays cheap. BOOTSTRAP, TOPIC, GROUP
// and DSN say where.
'use strict';

const { Kafka, logLevel } = require('kafkajs');
const { Pool } = require('pg');
const inbox = require('pg-transactional-outbox');

const BACKLOG = 1000;
const STORING = 8; // at once
const BATCH = 500;
const POLL_MS = 10;

// The table is new: plans made while it is empty would read all of it for ever.
const connection = { connectionString: process.env.DSN, options: '-c enable_seqscan=off' };
const database = new URL(process.env.DSN).pathname.slice(1);
const config = {
  outboxOrInbox: 'inbox',
  dbListenerConfig: connection,
  dbHandlerConfig: connection,
  settings: {
    dbSchema: 'public',
    dbTable: 'peer_inbox',
    nextMessagesBatchSize: BATCH,
    nextMessagesFunctionName: 'next_messages',
    nextMessagesPollingIntervalInMs: POLL_MS,
  },
};
const logger = inbox.getDisabledLogger();
const known = new Set();
const open = new Set();

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (value) => (value === undefined || value === null ? '' : value.toString());

async function makeTable(pool) {
  await pool.query(
    inbox.DatabaseSetupExporter.createPollingScript(
      {
        outboxOrInbox: 'inbox',
        database,
        schema: 'public',
        table: 'peer_inbox',
        listenerRole: 'postgres',
        handlerRole: 'postgres',
        nextMessagesSchema: 'public',
        nextMessagesName: 'next_messages',
      },
      true,
    ),
  );
  await pool.query('ALTER TABLE peer_inbox ADD received_at timestamptz NOT NULL DEFAULT now()');
}

function messageOf(record) {
  return {
    id: text(record.headers.id),
    aggregateType: 'order',
    aggregateId: text(record.key),
    messageType: text(record.headers.eventType),
    segment: text(record.key),
    concurrency: 'parallel',
    payload: JSON.parse(text(record.value)),
  };
}

async function store(pool, save, record) {
  const message = messageOf(record);
  if (!known.has(message.id)) open.add(message.id);
  known.add(message.id);
  await inbox.executeTransaction(
    await pool.connect(),
    (client) => save(message, client),
    inbox.IsolationLevel.ReadCommitted,
  );
}

async function storeBatch(pool, save, { batch, heartbeat }) {
  for (let at = 0; at < batch.messages.length; at += STORING) {
    while (open.size > BACKLOG) {
      await sleep(5);
      await heartbeat();
    }
    await Promise.all(batch.messages.slice(at, at + STORING).map((record) => store(pool, save, record)));
  }
}

async function main() {
  const pool = new Pool({ ...connection, max: STORING });
  await makeTable(pool);
  const save = inbox.initializeMessageStorage(config, logger);
  const handler = { handle: async (message) => void open.delete(message.id) };
  inbox.initializePollingMessageListener(config, handler, logger, {
    // Its default starts with one message and grows; this is the size it ends at.
    batchSizeStrategy: async () => BATCH,
  });
  const kafka = new Kafka({ brokers: [process.env.BOOTSTRAP], logLevel: logLevel.ERROR });
  const consumer = kafka.consumer({ groupId: process.env.GROUP });
  await consumer.connect();
  await consumer.subscribe({ topics: [process.env.TOPIC], fromBeginning: true });
  await consumer.run({ eachBatch: (batch) => storeBatch(pool, save, batch) });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
