package io.inboxd.servlet;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.Part;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URLDecoder;
import java.nio.charset.Charset;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads a form of HTML in the body of a request: its parameters, and the bytes that must be the same in two copies. */
final class Form {
    private static final Pattern BOUNDARY =
            Pattern.compile(";\\s*boundary=(?:\"([^\"]+)\"|([^\\s;]+))", Pattern.CASE_INSENSITIVE);

    private Form() {}

    private static boolean isOf(HttpServletRequest request, String type) {
        String given = Objects.requireNonNullElse(request.getContentType(), "");
        return given.toLowerCase(Locale.ROOT).startsWith(type);
    }

    static boolean isMultipart(HttpServletRequest request) {
        return isOf(request, "multipart/form-data");
    }

    /** The parameters of the query, and behind them those of the body, as a container has them for POST. */
    static Map<String, String[]> parametersOf(HttpServletRequest request, byte[] body, Map<String, String[]> query) {
        Map<String, String[]> all = new LinkedHashMap<>(query);
        if (!"POST".equals(request.getMethod()) || !isOf(request, "application/x-www-form-urlencoded")) {
            return all;
        }
        String given = request.getCharacterEncoding();
        Charset charset = given == null ? UTF_8 : Charset.forName(given);
        for (String pair : new String(body, charset).split("&")) {
            if (!pair.isEmpty()) {
                String[] halves = pair.split("=", 2);
                String value = halves.length == 1 ? "" : URLDecoder.decode(halves[1], charset);
                all.merge(URLDecoder.decode(halves[0], charset), new String[] {value}, Form::append);
            }
        }
        return all;
    }

    private static String[] append(String[] values, String[] more) {
        String[] all = Arrays.copyOf(values, values.length + 1);
        all[values.length] = more[0];
        return all;
    }

    /** A form with parts as it came. Each copy of it may have another boundary between them. */
    static byte[] withoutBoundary(HttpServletRequest request, byte[] body) {
        Matcher boundary = BOUNDARY.matcher(Objects.requireNonNullElse(request.getContentType(), ""));
        if (!isOf(request, "multipart/") || !boundary.find()) {
            return body;
        }
        String delimiter = "\r\n--" + (boundary.group(1) == null ? boundary.group(2) : boundary.group(1));
        StringBuilder compared = new StringBuilder();
        for (String part : ("\r\n" + new String(body, ISO_8859_1)).split(Pattern.quote(delimiter), -1)) {
            compared.append(part.length()).append(':').append(part);
        }
        return compared.toString().getBytes(ISO_8859_1);
    }

    /** A digest of the names, types and contents of the parts. */
    static byte[] digestOf(Collection<Part> parts) throws IOException {
        ByteArrayOutputStream compared = new ByteArrayOutputStream();
        for (Part part : parts) {
            for (String text : Arrays.asList(part.getName(), part.getSubmittedFileName(), part.getContentType())) {
                compared.write(((text == null ? -1 : text.length()) + ":" + text).getBytes(UTF_8));
            }
            compared.write(digestOf(part));
        }
        return compared.toByteArray();
    }

    private static byte[] digestOf(Part part) throws IOException {
        try (InputStream content = part.getInputStream();
                DigestInputStream digested = new DigestInputStream(content, MessageDigest.getInstance("SHA-256"))) {
            digested.transferTo(OutputStream.nullOutputStream());
            return digested.getMessageDigest().digest();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // each JDK has it
        }
    }
}
