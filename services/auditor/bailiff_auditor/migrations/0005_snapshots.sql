-- The newest snapshot of each pool's state, gzipped: readers that have none download it, and check it against the log.
CREATE TABLE snapshots (
    pool smallint PRIMARY KEY REFERENCES pools (id),
    seq bigint NOT NULL,       -- the state digest that confirms it
    schema integer NOT NULL,   -- STATE_SCHEMA of its state
    data bytea NOT NULL);
ALTER TABLE snapshots ALTER COLUMN data SET STORAGE EXTERNAL;
