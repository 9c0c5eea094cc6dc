-- Messages of bailiff.cosignatures about this log, with valid signatures of the log and of the witness that they name.
CREATE TABLE cosignatures (
    pool smallint NOT NULL REFERENCES pools,
    "offset" bigint NOT NULL,
    kind text NOT NULL,
    witness text NOT NULL,
    size bigint NOT NULL,
    cosigned_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (pool, "offset")
);
CREATE INDEX cosignatures_by_size ON cosignatures (pool, size);
ALTER TABLE pools ADD COLUMN cosignatures_offset bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN cosignatures.witness IS 'name, key id and public key; anybody may have made the key';
