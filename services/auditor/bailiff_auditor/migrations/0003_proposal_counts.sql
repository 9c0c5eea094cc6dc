-- How many proposals of the pool searching again reproduced, and so on, up to each: whoever asks for them does not count anew.
ALTER TABLE proposal_checks ADD COLUMN reproduced bigint, ADD COLUMN not_reproduced bigint, ADD COLUMN not_searched bigint;
UPDATE proposal_checks c SET reproduced = n.reproduced, not_reproduced = n.not_reproduced, not_searched = n.not_searched FROM (
    SELECT pool, seq,
        count(*) FILTER (WHERE result = 'reproduced') OVER up_to AS reproduced,
        count(*) FILTER (WHERE result = 'not-reproduced') OVER up_to AS not_reproduced,
        count(*) FILTER (WHERE result = 'not-searched') OVER up_to AS not_searched
    FROM proposal_checks WINDOW up_to AS (PARTITION BY pool ORDER BY seq)) n WHERE n.pool = c.pool AND n.seq = c.seq;
ALTER TABLE proposal_checks ALTER COLUMN reproduced SET NOT NULL, ALTER COLUMN not_reproduced SET NOT NULL,
    ALTER COLUMN not_searched SET NOT NULL;
