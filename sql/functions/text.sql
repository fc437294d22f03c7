-- Bytes and errors as text for people.

-- Bytes as text, or NULL if they are not UTF-8 or contain NUL. Catches errors, which starts a subtransaction:
-- never in a parallel plan.
CREATE OR REPLACE FUNCTION inbox.try_text(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- Bytes as JSON, or NULL if they are not JSON that jsonb can hold. As try_text().
CREATE OR REPLACE FUNCTION inbox.try_json(bytes bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN convert_from(bytes, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- The bytes of a base64 text, or NULL if it is none. As try_text().
CREATE OR REPLACE FUNCTION inbox.try_base64(encoded text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN decode(encoded, 'base64');
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;

-- An error without its variable parts: ids, quoted values, numbers.
CREATE OR REPLACE FUNCTION inbox.error_shape(error text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        CASE WHEN length(error) > 1000 THEN left(error, 500) || ' … ' || right(error, 500) ELSE error END,
        '[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}', '<id>', 'g'),
        '"[^"]*"|(^|(?<=[^[:alnum:]]))''[^'']*''', '<text>', 'g'),
        E'\\m(0x[0-9a-fA-F]+|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{12,})\\M', '<id>', 'g'),
        '[0-9]+', '#', 'g')
$$;
