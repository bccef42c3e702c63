"""Who may ask: API keys, what each of them may do, and how much of it."""
