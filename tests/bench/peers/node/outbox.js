// pg-transactional-outbox as an outbox: its polling listener gives each event to a handler, which sends it with kafkajs.
// Batches of 500, polled every 10 ms. BOOTSTRAP, TOPIC and DSN say where. With the argument `table` it makes the table and
// ends.
'use strict';

const { Kafka, logLevel } = require('kafkajs');
const { Pool } = require('pg');
const outbox = require('pg-transactional-outbox');

const BATCH = 500;
const POLL_MS = 10;

const connection = { connectionString: process.env.DSN, options: '-c enable_seqscan=off' };
const names = { dbSchema: 'public', dbTable: 'outbox', nextMessagesFunctionName: 'next_messages' };

async function makeTable() {
  const pool = new Pool(connection);
  await pool.query(
    outbox.DatabaseSetupExporter.createPollingScript(
      {
        outboxOrInbox: 'outbox',
        database: new URL(process.env.DSN).pathname.slice(1),
        schema: names.dbSchema,
        table: names.dbTable,
        listenerRole: 'postgres',
        handlerRole: 'postgres',
        nextMessagesSchema: 'public',
        nextMessagesName: names.nextMessagesFunctionName,
      },
      true,
    ),
  );
  await pool.end();
}

async function publish() {
  const kafka = new Kafka({ brokers: [process.env.BOOTSTRAP], logLevel: logLevel.ERROR });
  const producer = kafka.producer();
  await producer.connect();
  const handle = (message) =>
    producer.send({
      topic: process.env.TOPIC,
      messages: [
        {
          key: message.aggregateId,
          value: JSON.stringify(message.payload),
          headers: { id: message.id, eventType: message.messageType },
        },
      ],
    });
  outbox.initializePollingMessageListener(
    {
      outboxOrInbox: 'outbox',
      dbListenerConfig: connection,
      dbHandlerConfig: connection,
      settings: { ...names, nextMessagesBatchSize: BATCH, nextMessagesPollingIntervalInMs: POLL_MS },
    },
    { handle },
    outbox.getDisabledLogger(),
    { batchSizeStrategy: async () => BATCH },
  );
}

(process.argv[2] === 'table' ? makeTable() : publish()).catch((error) => {
  console.error(error);
  process.exit(1);
});
