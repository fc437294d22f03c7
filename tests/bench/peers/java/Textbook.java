import java.sql.Connection;
import java.sql.PreparedStatement;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** The idempotent consumer of the textbooks: a transaction per message, four threads. */
final class Textbook implements Runnable {
    private static final int THREADS = 4;

    public static void main(String[] arguments) throws Exception {
        Inbox.makeTable();
        for (int i = 0; i < THREADS; i++)
            new Thread(new Textbook()).start();
    }

    @Override
    public void run() {
        try (Connection connection = Inbox.connect();
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(Inbox.consumer());
                PreparedStatement insert = connection.prepareStatement(Inbox.INSERT);
                PreparedStatement complete = connection.prepareStatement(Inbox.COMPLETE)) {
            consumer.subscribe(List.of(System.getenv("TOPIC")));
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<byte[], byte[]> record : records)
                    one(connection, insert, complete, record);
                consumer.commitSync();
            }
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void one(Connection connection, PreparedStatement insert, PreparedStatement complete,
            ConsumerRecord<byte[], byte[]> record) throws Exception {
        Inbox.set(insert, record);
        if (insert.executeUpdate() == 1) {
            Inbox.handle(record.value());
            complete.setObject(1, Inbox.id(record));
            complete.executeUpdate();
        }
        connection.commit();
    }
}
