package io.inboxd.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.MultipartConfigElement;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.util.descriptor.web.FilterDef;
import org.apache.tomcat.util.descriptor.web.FilterMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The filter in Tomcat, with a database that is a script. tests/languages of the repository has tests with PostgreSQL. */
final class IdempotencyFilterTest {
    private final FakeDatabase database = new FakeDatabase();
    private final Tomcat tomcat = new Tomcat();
    private IdempotencyFilter.Rules rules = new IdempotencyFilter.Rules();
    private MultipartConfigElement multipart;
    private HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.ofString("17");
    private Throwable thrown;

    private interface Outer {
        void filter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                throws IOException, ServletException;
    }

    private interface Servlet {
        void serve(HttpServletRequest request, HttpServletResponse response) throws IOException;
    }

    @AfterEach
    void stop() throws Exception {
        tomcat.stop();
        tomcat.destroy();
    }

    private static void map(Context context, String name, Filter filter) {
        FilterDef definition = new FilterDef();
        definition.setFilterName(name);
        definition.setFilter(filter);
        context.addFilterDef(definition);
        FilterMap everything = new FilterMap();
        everything.setFilterName(name);
        everything.addURLPattern("/*");
        context.addFilterMap(everything);
    }

    /** A POST through the outer filter, the filter and the servlet. */
    private HttpResponse<String> post(Outer outer, Servlet servlet, String... headers) throws Exception {
        File directory = Files.createTempDirectory("inboxd-tomcat-").toFile();
        tomcat.setBaseDir(directory.getPath());
        tomcat.setPort(0);
        Context context = tomcat.addContext("", directory.getPath());
        map(context, "outer", (request, response, chain) -> {
            try {
                outer.filter((HttpServletRequest) request, (HttpServletResponse) response, chain);
            } catch (IOException | ServletException | RuntimeException e) {
                thrown = e;
                throw e;
            }
        });
        map(context, "idempotency", new IdempotencyFilter(database.source(), rules));
        Wrapper wrapper = Tomcat.addServlet(context, "orders", new HttpServlet() {
            private static final long serialVersionUID = 1;

            @Override
            protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
                servlet.serve(request, response);
            }
        });
        wrapper.setMultipartConfigElement(multipart);
        context.addServletMappingDecoded("/orders", "orders");
        tomcat.start();
        URI address = URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/orders?a=b");
        HttpRequest.Builder request = HttpRequest.newBuilder(address).POST(body).header("Idempotency-Key", "k");
        for (int i = 0; i < headers.length; i += 2) {
            request.header(headers[i], headers[i + 1]);
        }
        HttpResponse<String> answer =
                HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
        Files.walk(directory.toPath())
                .sorted(java.util.Comparator.reverseOrder())
                .map(Path::toFile)
                .forEach(File::delete);
        return answer;
    }

    private static void pass(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        chain.doFilter(request, response);
    }

    private static void created(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setStatus(201);
        response.setHeader("Location", "/orders/1");
        response.getWriter().write("made");
    }

    private static String header(HttpResponse<?> answer, String name) {
        return answer.headers().firstValue(name).orElse(null);
    }

    @Test
    void theDatabaseGetsTheRequestAndTheResponse() throws Exception {
        HttpResponse<String> answer = post(IdempotencyFilterTest::pass, IdempotencyFilterTest::created);
        assertEquals(201, answer.statusCode());
        assertEquals("made", answer.body());
        assertEquals("tomorrow", header(answer, "Idempotency-Expires"));
        assertEquals("[null, null, k, POST, /orders?a=b, 17, , PT24H, true]", database.begun.toString());
        assertEquals("[token, 201, {\"Location\":[\"/orders/1\"]}, made]", database.completed.toString());
    }

    @Test
    void theConnectionIsGivenBackAsItWasBeforeTheClientReads() throws Exception {
        post(
                (request, response, chain) -> chain.doFilter(request, new HttpServletResponseWrapper(response) {
                    @Override
                    public ServletOutputStream getOutputStream() throws IOException {
                        database.calls.add("send");
                        return super.getOutputStream();
                    }
                }),
                IdempotencyFilterTest::created);
        assertEquals(
                "[autocommit false, begin, complete, commit, autocommit true, close, send]", database.calls.toString());
    }

    @Test
    void aReplayAlsoWaitsForNoClient() throws Exception {
        database.stored = "stored";
        HttpResponse<String> answer = post(
                (request, response, chain) -> chain.doFilter(request, new HttpServletResponseWrapper(response) {
                    @Override
                    public ServletOutputStream getOutputStream() throws IOException {
                        database.calls.add("send");
                        return super.getOutputStream();
                    }
                }),
                IdempotencyFilterTest::created);
        assertEquals("stored", answer.body());
        assertEquals("[autocommit false, begin, rollback, autocommit true, close, send]", database.calls.toString());
    }

    private static void withRequestId(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        response.setHeader("X-Request-Id", "7");
        response.addHeader("Vary", "Origin");
        chain.doFilter(request, response);
    }

    @Test
    void headersOfOuterFiltersAreNotStored() throws Exception {
        HttpResponse<String> answer = post(IdempotencyFilterTest::withRequestId, (request, response) -> {
            response.addHeader("Vary", "Accept");
            response.setContentType("text/html;charset=UTF-8");
            response.setStatus(201);
        });
        assertEquals("7", header(answer, "X-Request-Id"));
        assertEquals(
                "{\"Content-Type\":[\"text/html;charset=UTF-8\"],\"Vary\":[\"Origin\",\"Accept\"]}",
                database.completed.get(2));
    }

    @Test
    void aReplayHasFreshHeadersOfOuterFilters() throws Exception {
        database.stored = "stored";
        HttpResponse<String> answer = post(IdempotencyFilterTest::withRequestId, IdempotencyFilterTest::created);
        assertEquals("7", header(answer, "X-Request-Id"));
        assertEquals("/orders/1", header(answer, "location"));
    }

    @Test
    void anErrorKeepsTheHeadersOfOuterFiltersAndNoOthers() throws Exception {
        database.failure = new SQLException("no right", "42501");
        HttpResponse<String> answer = post(IdempotencyFilterTest::withRequestId, IdempotencyFilterTest::created);
        assertEquals(500, answer.statusCode());
        assertTrue(answer.body().contains("response-invalid"), answer.body());
        assertEquals("7", header(answer, "X-Request-Id"));
        assertEquals("Origin", header(answer, "Vary"));
        assertNull(header(answer, "Location"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"57P01", "55P03"})
    void aDatabaseThatIsAwayIs503(String state) throws Exception {
        database.failure = new SQLException("shutting down, or busy", state);
        HttpResponse<String> answer = post(IdempotencyFilterTest::pass, IdempotencyFilterTest::created);
        assertEquals(503, answer.statusCode());
        assertEquals("1", header(answer, "Retry-After"));
    }

    @Test
    void anErrorResponseAfterAFailedStatementIsSentAndNotStored() throws Exception {
        database.failure = new SQLException("aborted", "25P02");
        HttpResponse<String> answer = post(IdempotencyFilterTest::pass, (request, response) -> response.sendError(409));
        assertEquals(409, answer.statusCode());
        assertTrue(!database.calls.contains("commit"));
    }

    @Test
    void theExceptionOfTheServletIsNotReplacedByThatOfTheRollback() throws Exception {
        database.rollbackFailure = new SQLException("the connection is lost", "08006");
        post(IdempotencyFilterTest::pass, (request, response) -> {
            throw new IllegalStateException("mine");
        });
        assertEquals("mine", thrown.getMessage());
        assertEquals("the connection is lost", thrown.getSuppressed()[0].getMessage());
    }

    @Test
    void aRedirectOfServlet61IsKeptBack() throws Exception {
        HttpResponse<String> answer = post(IdempotencyFilterTest::pass, (request, response) -> {
            response.getWriter().write("dropped");
            ((HeldResponse) response).sendRedirect("/orders/1", 303, true);
        });
        assertEquals(303, answer.statusCode());
        assertEquals("[token, 303, {\"Location\":[\"/orders/1\"]}, ]", database.completed.toString());
    }

    private void assertUnread(Outer outer) throws Exception {
        HttpResponse<String> answer = post(outer, IdempotencyFilterTest::created);
        assertEquals(415, answer.statusCode());
        assertTrue(answer.body().contains("request-unread"), answer.body());
    }

    @Test
    void aBodyThatAFilterHasReadIsNotCompared() throws Exception {
        assertUnread((request, response, chain) -> {
            request.getInputStream().readAllBytes();
            chain.doFilter(request, response);
        });
    }

    @Test
    void aBodyThatAFilterHasReadAsTextIsNotCompared() throws Exception {
        assertUnread((request, response, chain) -> {
            request.getReader().readLine();
            chain.doFilter(request, response);
        });
    }

    @Test
    void aBodyThatAFilterHasDecodedMayBeShorter() throws Exception {
        Outer decode = (request, response, chain) -> {
            request.getInputStream().read();
            chain.doFilter(request, response);
        };
        assertEquals(
                201,
                post(decode, IdempotencyFilterTest::created, "Content-Encoding", "x-test")
                        .statusCode());
        assertEquals("7", database.begun.get(5));
    }

    @Test
    void aFormInTheBodyHasItsParameters() throws Exception {
        body = HttpRequest.BodyPublishers.ofString("item=caf%C3%A9+au+lait&a=c&empty");
        post(
                IdempotencyFilterTest::pass,
                (request, response) -> {
                    response.setCharacterEncoding("UTF-8");
                    response.getWriter()
                            .write(request.getParameter("item")
                                    + String.join("", request.getParameterValues("a"))
                                    + Collections.list(request.getParameterNames())
                                    + request.getParameter("none"));
                },
                "Content-Type",
                "application/x-www-form-urlencoded");
        assertEquals("caf\u00e9 au laitbc[a, item, empty]null", database.completed.get(3));
    }

    private HttpResponse<String> postForm(String boundary, String content, Servlet servlet) throws Exception {
        body = HttpRequest.BodyPublishers.ofString("--" + boundary
                + "\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nphoto\r\n--" + boundary
                + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + content
                + "\r\n--" + boundary + "--\r\n");
        return post(IdempotencyFilterTest::pass, servlet, "Content-Type", "multipart/form-data; boundary=" + boundary);
    }

    private static String textOf(HttpServletRequest request) throws IOException {
        try {
            return request.getParameter("title")
                    + new String(request.getPart("file").getInputStream().readAllBytes());
        } catch (ServletException e) {
            throw new IOException(e);
        }
    }

    @Test
    void aServletWithAMultipartConfigGetsTheParts() throws Exception {
        multipart = new MultipartConfigElement("");
        postForm("b", "one", (request, response) -> response.getWriter().write(textOf(request)));
        assertEquals("photoone", database.completed.get(3));
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void theBoundaryOfAFormIsNotCompared(boolean hasConfig) throws Exception {
        Set<Object> compared = new HashSet<>();
        for (String form : List.of("a one", "bb one", "a two")) {
            IdempotencyFilterTest test = new IdempotencyFilterTest();
            test.multipart = hasConfig ? new MultipartConfigElement("") : null;
            String[] words = form.split(" ");
            assertEquals(
                    201,
                    test.postForm(words[0], words[1], IdempotencyFilterTest::created)
                            .statusCode());
            compared.add(test.database.begun.get(5));
            test.stop();
        }
        assertEquals(2, compared.size());
    }

    @Test
    void aFormThatIsTooLargeIsRefused() throws Exception {
        multipart = new MultipartConfigElement("", 2, -1, 0);
        HttpResponse<String> answer = postForm("b", "one", IdempotencyFilterTest::created);
        assertEquals(413, answer.statusCode());
        assertEquals(List.of(), database.calls);
    }

    @Test
    void aFingerprintOfTheServiceIsComparedInPlaceOfTheBody() throws Exception {
        rules = rules.withFingerprint(request -> {
            try {
                return ("order " + request.getReader().readLine()).getBytes();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        post(IdempotencyFilterTest::pass, (request, response) -> response.getWriter()
                .write(request.getReader().readLine()));
        assertEquals("order 17", database.begun.get(5));
        assertEquals("17", database.completed.get(3));
    }

    @Test
    void aCopyWaitsAMomentForTheOneThatRuns() throws Exception {
        database.busy = 2;
        assertEquals(
                201,
                post(IdempotencyFilterTest::pass, IdempotencyFilterTest::created)
                        .statusCode());
        assertEquals(3, Collections.frequency(database.calls, "begin"));
        assertEquals(3, Collections.frequency(database.calls, "close"));
    }

    @Test
    void aCopyWaitsNoLongerThanTheRuleSays() throws Exception {
        database.busy = 100;
        rules = rules.withWait(Duration.ofMillis(25));
        HttpResponse<String> answer = post(IdempotencyFilterTest::pass, IdempotencyFilterTest::created);
        assertEquals(409, answer.statusCode());
        assertEquals("1", header(answer, "Retry-After"));
        assertEquals(3, Collections.frequency(database.calls, "begin"));
    }

    @Test
    void theEventsOfARequestContinueItsTrace() throws Exception {
        post(
                IdempotencyFilterTest::pass,
                IdempotencyFilterTest::created,
                "traceparent",
                "00-aa-bb-01",
                "tracestate",
                "a=b");
        assertEquals(List.of("00-aa-bb-01", "a=b"), database.begun.subList(0, 2));
    }

    @Test
    void allCopiesCanReadTheResponse() throws Exception {
        post(
                IdempotencyFilterTest::pass,
                (request, response) -> response.getWriter().write(request.getHeader("accept-encoding")),
                "Accept-Encoding",
                "gzip");
        assertEquals("identity", database.completed.get(3));
    }
}
