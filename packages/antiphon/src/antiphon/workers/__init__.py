"""Workers as a frontend sees them: where they are, what they can do, how they are spoken to, and whether they are well."""
