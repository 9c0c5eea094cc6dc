"""The kinds of workloads, each read into the same few fields. It holds no decisions and no requests to the API."""
