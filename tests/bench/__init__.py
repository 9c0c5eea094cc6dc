"""`make bench`: how fast it is, each figure beside a baseline of the same run. Never a test: nothing here can fail a build."""
