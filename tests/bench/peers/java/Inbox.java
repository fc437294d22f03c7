import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What both consumers share: where, the table, and how a record becomes a row. */
final class Inbox {
    static final String INSERT = "INSERT INTO peer_inbox (event_id, event_type, kafka_partition, kafka_offset,"
            + " key, payload) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (event_id) DO NOTHING";
    static final String COMPLETE = "UPDATE peer_inbox SET processed_at = now() WHERE event_id = ?";
    private static final String TABLE = "CREATE TABLE IF NOT EXISTS peer_inbox (event_id uuid PRIMARY KEY,"
            + " event_type text, kafka_partition int, kafka_offset bigint, key bytea, payload bytea,"
            + " received_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz) WITH (fillfactor = 50)";

    private Inbox() {}

    static Connection connect() throws SQLException {
        String[] dsn = System.getenv("DSN").split("://|@");
        Connection connection = DriverManager.getConnection(
                "jdbc:postgresql://" + dsn[2] + "?reWriteBatchedInserts=true", dsn[1], "");
        connection.setAutoCommit(false);
        return connection;
    }

    static void makeTable() throws SQLException {
        try (Connection connection = connect()) {
            connection.createStatement().execute(TABLE);
            connection.commit();
        }
    }

    static Properties consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        properties.put("group.id", System.getenv("GROUP"));
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return properties;
    }

    static UUID id(ConsumerRecord<byte[], byte[]> record) {
        return UUID.fromString(header(record, "id"));
    }

    static String type(ConsumerRecord<byte[], byte[]> record) {
        return header(record, "eventType");
    }

    static void set(PreparedStatement insert, ConsumerRecord<byte[], byte[]> record) throws SQLException {
        insert.setObject(1, id(record));
        insert.setString(2, type(record));
        insert.setInt(3, record.partition());
        insert.setLong(4, record.offset());
        insert.setBytes(5, record.key());
        insert.setBytes(6, record.value());
    }

    static void handle(byte[] payload) {}

    private static String header(ConsumerRecord<byte[], byte[]> record, String name) {
        return new String(record.headers().lastHeader(name).value(), StandardCharsets.UTF_8);
    }
}
