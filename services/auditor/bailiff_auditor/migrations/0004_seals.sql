-- Messages of bailiff.seals, and the Merkle tree at each seal, from which the next consistency proof is made.
CREATE TABLE seals (
    pool smallint NOT NULL REFERENCES pools,
    size bigint NOT NULL,
    root text NOT NULL,
    key text NOT NULL,
    sealed_at timestamptz NOT NULL,
    "offset" bigint NOT NULL,
    peaks bytea NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (pool, size)
);
CREATE TABLE sealing_keys (
    pool smallint NOT NULL REFERENCES pools,
    "offset" bigint NOT NULL,
    key text NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (pool, "offset")
);
ALTER TABLE pools ADD COLUMN seals_offset bigint NOT NULL DEFAULT 0;

CREATE VIEW seal_list AS
    SELECT d.name AS pool, s.size, s.root, s.key, s.sealed_at, s.data FROM seals s JOIN pools d ON d.id = s.pool;
