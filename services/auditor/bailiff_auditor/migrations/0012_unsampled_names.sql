-- PostgreSQL samples columns for its planner, and keeps the sample of a row that has gone: names are not to be in it. The sample
-- that there is goes with the column's type, which a view that reads it would hold; replaced, the view keeps who may read it.
CREATE OR REPLACE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, NULL::text AS name
    FROM records r JOIN pools d ON d.id = r.pool WHERE r.actor IS NOT NULL;
ALTER TABLE actors ALTER COLUMN name TYPE text;
ALTER TABLE actors ALTER COLUMN name SET STATISTICS 0;
CREATE OR REPLACE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, a.name
    FROM records r JOIN pools d ON d.id = r.pool LEFT JOIN actors a ON a.actor = r.actor WHERE r.actor IS NOT NULL;
