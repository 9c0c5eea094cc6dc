"""Who may come in, and what each may do: sign-in, sessions, roles, and what every request is checked for."""
