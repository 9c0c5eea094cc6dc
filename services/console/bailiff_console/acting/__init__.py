"""What people ask for through the page: said beforehand what it would cause, then published with their name."""
