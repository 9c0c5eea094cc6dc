-- Past use beyond the quota, which `fairness.half_life` counts in shares.
ALTER TABLE project_usage ADD COLUMN past_use bigint[] NOT NULL DEFAULT '{0,0,0}';
