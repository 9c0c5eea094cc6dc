"""The web console: live state of each pool, explanations of decisions, and requests by signed-in users."""
