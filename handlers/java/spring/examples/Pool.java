import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;

/** The database that the {@code PG…} variables name, which must be that of the inbox. */
final class Pool {
    private Pool() {}

    static HikariDataSource open() {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl("jdbc:postgresql://" + get("PGHOST", "localhost") + ":" + get("PGPORT", "5432") + "/"
                + get("PGDATABASE", get("PGUSER", "postgres")));
        config.setUsername(get("PGUSER", "postgres"));
        config.setPassword(get("PGPASSWORD", ""));
        config.addDataSourceProperty("ApplicationName", get("PGAPPNAME", "invoices"));
        config.setConnectionTimeout(5_000);
        config.setInitializationFailTimeout(-1); // a handler may start before its database
        return new HikariDataSource(config);
    }

    private static String get(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }
}
