-- Makes the server process of this session keep the memory of a batch. glibc returns memory to the kernel after each
-- statement, and the next statement pays page faults for it again: a sixth of the time to store a batch. Once a
-- block of this size was freed, glibc returns nothing while less than twice as much is unused (mallopt(3),
-- M_MMAP_THRESHOLD). It has no effect with another C library, or behind a pooler that gives each transaction another
-- process.
-- Caller: store/pg/db.c, once a connection that stores. Index: none.
SELECT octet_length(repeat(' ', 16777216))
