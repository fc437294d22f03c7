package io.inboxd.servlet;

import static java.nio.charset.StandardCharsets.UTF_8;

import jakarta.servlet.AsyncContext;
import jakarta.servlet.ReadListener;
import jakarta.servlet.ServletInputStream;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletRequestWrapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;

/** A request whose body was read already. */
final class HeldRequest extends HttpServletRequestWrapper {
    private final byte[] body;
    private final ByteArrayInputStream rest;

    HeldRequest(HttpServletRequest request, byte[] body) {
        super(request);
        this.body = body;
        this.rest = new ByteArrayInputStream(body);
    }

    byte[] body() {
        return body;
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

    @Override
    public BufferedReader getReader() throws IOException {
        String charset = getCharacterEncoding();
        return new BufferedReader(new InputStreamReader(rest, charset == null ? UTF_8.name() : charset));
    }

    @Override
    public ServletInputStream getInputStream() {
        return new ServletInputStream() {
            @Override
            public int read() {
                return rest.read();
            }

            @Override
            public int read(byte[] bytes, int offset, int length) {
                return rest.read(bytes, offset, length);
            }

            @Override
            public boolean isFinished() {
                return rest.available() == 0;
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
