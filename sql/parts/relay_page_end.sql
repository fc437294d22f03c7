-- $2: bytes after which no further row comes. The first row always comes.
        ) r) s) o
WHERE o.bytes - o.size < $2::bigint
