"""A real Slurm with accounting: what it prints is what `bailiff import slurm` must read."""
