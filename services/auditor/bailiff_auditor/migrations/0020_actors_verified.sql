-- Whether it is known that the actor of a record requested it: by a signature, or by the topic's access list. Where the value of
-- another header holds the same bytes, the actor is at worst shown as not verified.
CREATE FUNCTION actor_verified(actor text, headers bytea) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN actor IS NOT NULL THEN
        position('\x0000000763655f61757468'::bytea IN headers) > 0  -- ce_auth, with its length
        AND position('\x0000000763655f61757468000000046e6f6e65'::bytea IN headers) = 0 END;  -- ce_auth: none
COMMENT ON FUNCTION actor_verified IS 'null: nobody requested the record';

CREATE OR REPLACE VIEW facts AS
    SELECT d.name AS pool, r.seq, r.time, r.cycle, r.type, r.job, r.actor, convert_from(r.value, 'UTF8')::jsonb AS data,
        actor_verified(r.actor, r.headers) AS actor_verified
    FROM records r JOIN pools d ON d.id = r.pool WHERE NOT r.decision;

CREATE OR REPLACE VIEW requests_by_actor AS
    SELECT d.name AS pool, r.seq, r.time, r.type, r.job, r.actor, a.name, actor_verified(r.actor, r.headers) AS actor_verified
    FROM records r JOIN pools d ON d.id = r.pool LEFT JOIN actors a ON a.actor = r.actor WHERE r.actor IS NOT NULL;
