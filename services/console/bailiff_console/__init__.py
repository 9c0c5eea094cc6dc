"""The console: a web page that shows who has the GPUs and why, and by which people ask for things."""
