"""Policy files, differences between policies, and findings about a policy."""
