-- Bulk rows are written in the transaction that updates their pool's row, and pools are never deleted: the foreign key check
-- of each row cannot fail, and takes longer than the write.
ALTER TABLE records DROP CONSTRAINT records_pool_fkey;
ALTER TABLE jobs DROP CONSTRAINT jobs_pool_fkey;
ALTER TABLE attempts DROP CONSTRAINT attempts_pool_fkey;
ALTER TABLE evictions DROP CONSTRAINT evictions_pool_fkey;
