package io.inboxd;

import io.cloudevents.CloudEvent;
import io.cloudevents.core.builder.CloudEventBuilder;
import io.cloudevents.core.data.BytesCloudEventData;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Set;

/**
 * Makes events of the SDK of CloudEvents. Only this class needs the library {@code io.cloudevents:cloudevents-core}, which your
 * program must then depend on.
 */
public final class CloudEvents {
    private static final Set<String> CORE =
            Set.of("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema");

    private CloudEvents() {}

    /**
     * The event as the type of the SDK. A type is required there: without one it is {@code unknown}.
     *
     * @param event an event of a delivery
     * @return the same event
     */
    @SuppressWarnings("exports") // a program that calls it has the library
    public static CloudEvent of(Event event) {
        CloudEventBuilder builder = CloudEventBuilder.v1()
                .withId(event.id())
                .withSource(uri(event.source()))
                .withType(event.type().isEmpty() ? "unknown" : event.type());
        event.subject().ifPresent(builder::withSubject);
        event.time().ifPresent(builder::withTime);
        event.dataContentType().ifPresent(builder::withDataContentType);
        event.attribute("dataschema").map(CloudEvents::uri).ifPresent(builder::withDataSchema);
        if (!event.data().isTombstone()) {
            builder.withData(BytesCloudEventData.wrap(event.data().bytes()));
        }
        event.attributes().forEach((name, value) -> {
            if (!CORE.contains(name)) {
                addExtension(builder, name, value);
            }
        });
        return builder.build();
    }

    /** A source that is no URI, such as {@code my shop}, is encoded. */
    private static URI uri(String text) {
        try {
            return new URI(text);
        } catch (URISyntaxException e) {
            return URI.create(URLEncoder.encode(text, StandardCharsets.UTF_8));
        }
    }

    private static void addExtension(CloudEventBuilder builder, String name, Object value) {
        if (value instanceof Boolean truth) {
            builder.withExtension(name, truth);
        } else if (value instanceof Number number) {
            builder.withExtension(name, number);
        } else {
            builder.withExtension(name, value.toString());
        }
    }
}
