-- PostgreSQL's planner statistics keep sampled values of deleted rows, so the column of names has none. Changing the column's
-- type drops the existing sample; views on the column block that, and replacing the view keeps its grants.
CREATE OR REPLACE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, NULL::text AS name
    FROM records r JOIN pools d ON d.id = r.pool WHERE r.actor IS NOT NULL;
ALTER TABLE actors ALTER COLUMN name TYPE text;
ALTER TABLE actors ALTER COLUMN name SET STATISTICS 0;
CREATE OR REPLACE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, a.name
    FROM records r JOIN pools d ON d.id = r.pool LEFT JOIN actors a ON a.actor = r.actor WHERE r.actor IS NOT NULL;
