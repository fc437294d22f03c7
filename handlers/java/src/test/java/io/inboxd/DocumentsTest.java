package io.inboxd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The code of the README is that of the examples, which tests/languages of the repository runs. */
class DocumentsTest {
    private static String read(Path path) {
        try {
            return Files.readString(path);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void theReadmeShowsExamples() throws IOException {
        List<String> shown = Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL)
                .matcher(read(Path.of("README.md")))
                .results()
                .map(found -> found.group(1))
                .toList();
        assertEquals(2, shown.size());
        try (Stream<Path> examples = Files.list(Path.of("examples"))) {
            assertTrue(examples.map(DocumentsTest::read).toList().containsAll(shown));
        }
    }

    @Test
    void theVersionIsThatOfThePackage() {
        assertTrue(read(Path.of("pom.xml")).contains("<version>" + Version.VERSION + "</version>"));
    }
}
