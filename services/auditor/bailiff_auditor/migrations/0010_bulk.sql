-- Rows that come in bulk are written in the transaction that moves their domain's row, which nobody ever deletes: to look it up
-- for each of them once more finds nothing, and takes longer than to write them.
ALTER TABLE records DROP CONSTRAINT records_domain_fkey;
ALTER TABLE jobs DROP CONSTRAINT jobs_domain_fkey;
ALTER TABLE attempts DROP CONSTRAINT attempts_domain_fkey;
ALTER TABLE evictions DROP CONSTRAINT evictions_domain_fkey;
