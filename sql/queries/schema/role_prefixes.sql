-- The prefixes of the roles that may use the schema.
-- Caller: store/schema/roles.c. Index: none (catalogs).
-- Back: prefix.
SELECT p.prefix FROM (
-- include: role_prefixes
) p ORDER BY p.place
