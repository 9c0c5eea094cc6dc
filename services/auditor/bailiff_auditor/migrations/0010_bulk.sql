-- Rows that come in bulk are written in the transaction that moves their pool's row, which nobody ever deletes: to look it up
-- for each of them once more finds nothing, and takes longer than to write them.
ALTER TABLE records DROP CONSTRAINT records_pool_fkey;
ALTER TABLE jobs DROP CONSTRAINT jobs_pool_fkey;
ALTER TABLE attempts DROP CONSTRAINT attempts_pool_fkey;
ALTER TABLE evictions DROP CONSTRAINT evictions_pool_fkey;
