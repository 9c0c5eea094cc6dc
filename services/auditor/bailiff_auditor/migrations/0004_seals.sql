-- What was published on bailiff.seals, and the tree at each seal, from which the next one's proof is made.
CREATE TABLE seals (
    domain smallint NOT NULL REFERENCES domains,
    size bigint NOT NULL,
    root text NOT NULL,
    key text NOT NULL,
    sealed_at timestamptz NOT NULL,
    "offset" bigint NOT NULL,
    peaks bytea NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (domain, size)
);
CREATE TABLE sealing_keys (
    domain smallint NOT NULL REFERENCES domains,
    "offset" bigint NOT NULL,
    key text NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (domain, "offset")
);
ALTER TABLE domains ADD COLUMN seals_offset bigint NOT NULL DEFAULT 0;

CREATE VIEW seal_list AS
    SELECT d.name AS pool, s.size, s.root, s.key, s.sealed_at, s.data FROM seals s JOIN domains d ON d.id = s.domain;
