import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.confluent.parallelconsumer.PollContext;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** Confluent's Parallel Consumer: batches of 500 in the order of their keys, a transaction per batch. */
final class Batches {
    private static final int BATCH = 500;
    private static final int THREADS = 4;
    private static final String STORE = "INSERT INTO peer_inbox (event_id, event_type, kafka_partition,"
            + " kafka_offset, key, payload, processed_at) SELECT i.*, now() FROM unnest(?::uuid[], ?::text[],"
            + " ?::int[], ?::bigint[], ?::bytea[], ?::bytea[]) AS i ON CONFLICT (event_id) DO NOTHING";

    private final BlockingQueue<Connection> connections = new ArrayBlockingQueue<>(THREADS);

    public static void main(String[] arguments) throws Exception {
        Inbox.makeTable();
        new Batches().run();
    }

    private void run() throws SQLException {
        for (int i = 0; i < THREADS; i++)
            connections.add(Inbox.connect());
        ParallelConsumerOptions<byte[], byte[]> options = ParallelConsumerOptions.<byte[], byte[]>builder()
                .ordering(ProcessingOrder.KEY).maxConcurrency(THREADS).batchSize(BATCH)
                .consumer(new KafkaConsumer<>(Inbox.consumer())).build();
        ParallelStreamProcessor<byte[], byte[]> processor =
                ParallelStreamProcessor.createEosStreamProcessor(options);
        processor.subscribe(List.of(System.getenv("TOPIC")));
        processor.poll(this::store);
    }

    private void store(PollContext<byte[], byte[]> context) {
        try {
            Connection connection = connections.take();
            try (PreparedStatement insert = connection.prepareStatement(STORE)) {
                setAll(connection, insert, context.getConsumerRecordsFlattened());
                insert.executeUpdate();
                connection.commit();
            } finally {
                connections.add(connection);
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void setAll(Connection connection, PreparedStatement insert,
            List<ConsumerRecord<byte[], byte[]>> records) throws SQLException {
        int count = records.size();
        Object[] ids = new Object[count];
        Object[] types = new Object[count];
        Object[] partitions = new Object[count];
        Object[] offsets = new Object[count];
        byte[][] keys = new byte[count][];
        byte[][] payloads = new byte[count][];
        for (int i = 0; i < count; i++) {
            ConsumerRecord<byte[], byte[]> record = records.get(i);
            ids[i] = Inbox.id(record).toString();
            types[i] = Inbox.type(record);
            partitions[i] = record.partition();
            offsets[i] = record.offset();
            keys[i] = record.key();
            payloads[i] = record.value();
            Inbox.handle(record.value());
        }
        insert.setArray(1, connection.createArrayOf("uuid", ids));
        insert.setArray(2, connection.createArrayOf("text", types));
        insert.setArray(3, connection.createArrayOf("int4", partitions));
        insert.setArray(4, connection.createArrayOf("int8", offsets));
        insert.setArray(5, connection.createArrayOf("bytea", keys));
        insert.setArray(6, connection.createArrayOf("bytea", payloads));
    }
}
