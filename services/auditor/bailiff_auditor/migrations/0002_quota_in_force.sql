-- Where the quotas that are asked for exceed what counts of the pool, only part of each is in force.
ALTER TABLE project_usage ADD COLUMN quota_in_force bigint[];
UPDATE project_usage SET quota_in_force = quota;
ALTER TABLE project_usage ALTER COLUMN quota_in_force SET NOT NULL;
