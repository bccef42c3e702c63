"""`antiphon doctor`: looks at everything a server needs before it is started, and says what to do."""
