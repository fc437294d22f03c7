package io.inboxd.servlet;

import jakarta.servlet.ServletOutputStream;
import jakarta.servlet.WriteListener;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.HttpServletResponseWrapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;

/** A response whose body is kept until {@link #send}. Status and headers are those of the real one, which is not committed before. */
final class HeldResponse extends HttpServletResponseWrapper {
    private static final int MOST = 1 << 20; // the largest response that the database stores

    private final ByteArrayOutputStream kept = new ByteArrayOutputStream();
    private boolean tooLarge;
    private final ServletOutputStream stream = new KeptStream();
    private PrintWriter writer;

    HeldResponse(HttpServletResponse response) {
        super(response);
    }

    byte[] body() {
        if (writer != null) {
            writer.flush();
        }
        return kept.toByteArray();
    }

    boolean isTooLarge() {
        body(); // flushes what the writer has
        return tooLarge;
    }

    void send() throws IOException {
        byte[] body = body();
        super.setContentLength(body.length);
        super.getOutputStream().write(body);
    }

    @Override
    public ServletOutputStream getOutputStream() {
        return stream;
    }

    @Override
    public PrintWriter getWriter() throws IOException {
        if (writer == null) {
            setCharacterEncoding(getCharacterEncoding()); // as a container does: the type of the content names it
            writer = new PrintWriter(new OutputStreamWriter(stream, getCharacterEncoding()));
        }
        return writer;
    }

    @Override
    public void flushBuffer() {
        // nothing is sent before the COMMIT
    }

    @Override
    public void resetBuffer() {
        body(); // flushes what the writer has
        kept.reset();
        tooLarge = false;
    }

    @Override
    public void reset() {
        super.reset();
        resetBuffer();
    }

    @Override
    public void setContentLength(int length) {
        // send() knows it
    }

    @Override
    public void setContentLengthLong(long length) {
        // send() knows it
    }

    /** Without the page of the container. */
    @Override
    public void sendError(int status) {
        resetBuffer();
        setStatus(status);
    }

    @Override
    public void sendError(int status, String message) {
        sendError(status);
    }

    @Override
    public void sendRedirect(String location) {
        sendRedirect(location, SC_FOUND, true);
    }

    /** Overrides the method of Servlet 6.1, which the other ones of 6.1 call. Earlier containers do not have it. */
    public void sendRedirect(String location, int status, boolean clearBuffer) {
        if (clearBuffer) {
            resetBuffer();
        }
        setStatus(status);
        setHeader("Location", location);
    }

    private final class KeptStream extends ServletOutputStream {
        @Override
        public void write(int b) {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            tooLarge |= kept.size() + length > MOST;
            if (!tooLarge) {
                kept.write(bytes, offset, length);
            }
        }

        @Override
        public boolean isReady() {
            return true;
        }

        @Override
        public void setWriteListener(WriteListener listener) {
            throw new IllegalStateException("the response is not asynchronous");
        }
    }
}
