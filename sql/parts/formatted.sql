-- The payload m as text for a person, and whether it is formatted JSON. Formatting writes four blanks for each level of each line,
-- so its size can grow with the square of the payload. JSON of more than 32 levels or 1 MiB is shown as it is.
-- Included by the statements that show a payload. Index: none.
CROSS JOIN LATERAL (
    SELECT CASE WHEN octet_length(m.payload) <= 1048576 AND NOT jsonb_path_exists(j.payload_json, '$.**{32}')
                THEN jsonb_pretty(j.payload_json) END AS formatted
    FROM (SELECT m.payload_json OFFSET 0) j
    OFFSET 0) f
