-- Lets the server process of this session keep what a batch takes: glibc gives memory back to the kernel after
-- each statement, and the next one pays page faults for it again, a sixth of the time to store a batch. Once a
-- block this large was freed, glibc gives nothing back while less than twice as much lies idle (mallopt(3),
-- M_MMAP_THRESHOLD). Elsewhere, or behind a pooler that gives each transaction another process, it is idle.
-- Caller: store/inbox.c, once a connection. Index: none.
SELECT octet_length(repeat(' ', 16777216))
