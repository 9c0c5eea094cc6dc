"""Authentication and authorization: sign-in, sessions, roles, and the checks of every request."""
