-- Kafka's ids of the topics of which the archive keeps offsets. Where one is made anew, its offsets count from `…_from` on, after
-- those of the topic before it: no offset in the archive stands for two messages.
ALTER TABLE pools ADD COLUMN seals_topic text NOT NULL DEFAULT '', ADD COLUMN seals_from bigint NOT NULL DEFAULT 0,
    ADD COLUMN cosignatures_topic text NOT NULL DEFAULT '', ADD COLUMN cosignatures_from bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN pools.seals_topic IS 'empty: read by a release that did not keep it';
