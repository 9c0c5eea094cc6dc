-- The columns are named as in the API: GPUs of jobs that are not preemptible, and GPUs requested.
ALTER TABLE project_usage RENAME COLUMN fixed_gpu_milli TO non_preemptible_gpu_milli;
ALTER VIEW usage_over_time RENAME COLUMN gpus_fixed TO gpus_non_preemptible;
ALTER VIEW usage_over_time RENAME COLUMN gpus_wanted TO gpus_requested;
