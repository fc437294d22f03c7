package io.inboxd.servlet;

import static java.nio.charset.StandardCharsets.UTF_8;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import jakarta.servlet.http.Part;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Collection;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;

/** A request whose body was read already: its bytes, or its parts if the servlet has a MultipartConfig. */
final class HeldRequest extends HttpServletRequestWrapper {
    private final byte[] body;
    private final Collection<Part> parts; // null: the body is here as bytes
    private ByteArrayInputStream rest;
    private Map<String, String[]> parameters;

    /** Thrown if the request does not run. The client gets {@code reply}. */
    static final class Refusal extends Exception {
        private static final long serialVersionUID = 1;
        final transient Reply reply;

        Refusal(Reply reply) {
            super(null, null, false, false);
            this.reply = reply;
        }
    }

    private HeldRequest(HttpServletRequest request, byte[] body, Collection<Part> parts) {
        super(request);
        this.body = body;
        this.parts = parts;
        rewind();
    }

    static HeldRequest of(HttpServletRequest incoming, int most) throws Refusal {
        Reply tooLarge = Reply.tooLarge("the body of a request with a key has at most " + most + " bytes");
        if (incoming.getContentLengthLong() > most) {
            throw new Refusal(tooLarge);
        }
        Collection<Part> parts = partsOf(incoming);
        if (parts != null) {
            if (parts.stream().mapToLong(Part::getSize).sum() > most) {
                throw new Refusal(tooLarge);
            }
            return new HeldRequest(incoming, new byte[0], parts);
        }
        byte[] body;
        boolean wasRead;
        try {
            ServletInputStream stream = incoming.getInputStream();
            wasRead = stream.isFinished() && incoming.getHeader("Transfer-Encoding") != null;
            body = stream.readNBytes(most + 1);
        } catch (IOException e) {
            throw new Refusal(Reply.incomplete());
        } catch (IllegalStateException e) { // a filter has called getReader()
            throw new Refusal(Reply.unread());
        }
        long length = incoming.getContentLengthLong();
        if (body.length > most) {
            throw new Refusal(tooLarge);
        } else if (body.length == 0 && (length > 0 || wasRead)) {
            throw new Refusal(Reply.unread());
        } else if (body.length < length && incoming.getHeader("Content-Encoding") == null) {
            throw new Refusal(Reply.incomplete()); // a filter that decodes the body changes its length
        }
        return new HeldRequest(incoming, body, null);
    }

    /** The parts of a form, as the container reads them for this servlet; null: it does not. */
    private static Collection<Part> partsOf(HttpServletRequest incoming) throws Refusal {
        if (!Form.isMultipart(incoming)) {
            return null;
        }
        try {
            Collection<Part> parts = incoming.getParts();
            return parts.isEmpty() ? null : parts; // a filter may have read the body: then there are none, either
        } catch (IllegalStateException e) {
            if (e.getCause() == null) { // the servlet has no MultipartConfig
                return null;
            }
            throw new Refusal(Reply.tooLarge("a part of the form, or the form, is larger than the service allows"));
        } catch (IOException | ServletException e) {
            throw new Refusal(Reply.incomplete());
        }
    }

    /** Sets the body back to its beginning, so that the next reader gets all of it. */
    void rewind() {
        rest = new ByteArrayInputStream(body);
    }

    /** The bytes that must be the same in two copies of the request. */
    byte[] compared() throws IOException {
        return parts == null ? Form.withoutBoundary(this, body) : Form.digestOf(parts);
    }

    /** A response that ends after the filter would miss its transaction. */
    @Override
    public boolean isAsyncSupported() {
        return false;
    }

    @Override
    public AsyncContext startAsync() {
        throw new IllegalStateException("a request with a key is not asynchronous");
    }

    @Override
    public AsyncContext startAsync(ServletRequest request, ServletResponse response) {
        return startAsync();
    }

    /** Hides the encodings of this copy, because a copy that gets the stored response may accept other ones. */
    @Override
    public String getHeader(String name) {
        return "Accept-Encoding".equalsIgnoreCase(name) ? "identity" : super.getHeader(name);
    }

    @Override
    public Enumeration<String> getHeaders(String name) {
        return "Accept-Encoding".equalsIgnoreCase(name)
                ? Collections.enumeration(List.of("identity"))
                : super.getHeaders(name);
    }

    /** Adds the parameters of the body. The container has only those of the query, and those of the parts that it has read. */
    @Override
    public Map<String, String[]> getParameterMap() {
        if (parameters == null) {
            parameters = Collections.unmodifiableMap(Form.parametersOf(this, body, super.getParameterMap()));
        }
        return parameters;
    }

    @Override
    public String getParameter(String name) {
        String[] values = getParameterValues(name);
        return values == null ? null : values[0];
    }

    @Override
    public String[] getParameterValues(String name) {
        return getParameterMap().get(name);
    }

    @Override
    public Enumeration<String> getParameterNames() {
        return Collections.enumeration(getParameterMap().keySet());
    }

    @Override
    public BufferedReader getReader() throws IOException {
        String charset = getCharacterEncoding();
        return new BufferedReader(new InputStreamReader(bytes(), charset == null ? UTF_8.name() : charset));
    }

    private ByteArrayInputStream bytes() {
        if (parts != null) {
            throw new IllegalStateException("the parts of the request were read, because the servlet has a"
                    + " MultipartConfig; call getParts() or getParameter()");
        }
        return rest;
    }

    @Override
    public ServletInputStream getInputStream() {
        ByteArrayInputStream bytes = bytes();
        return new ServletInputStream() {
            @Override
            public int read() {
                return bytes.read();
            }

            @Override
            public int read(byte[] buffer, int offset, int length) {
                return bytes.read(buffer, offset, length);
            }

            @Override
            public boolean isFinished() {
                return bytes.available() == 0;
            }

            @Override
            public boolean isReady() {
                return true;
            }

            @Override
            public void setReadListener(ReadListener listener) {
                throw new IllegalStateException("the request is not asynchronous");
            }
        };
    }
}
