"""`antiphon launch`: agent clients started against a server, each with a configuration in a folder of its own."""
