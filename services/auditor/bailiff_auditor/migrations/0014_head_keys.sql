-- Whose key signs the next records of the log, and what the last record says about the next (JSON).
ALTER TABLE pools ADD COLUMN head_keys text NOT NULL DEFAULT '{}';
