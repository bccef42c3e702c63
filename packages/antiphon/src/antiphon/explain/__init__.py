"""Why did the cache miss? What was sent before, what is sent now, and the first cause that sets them apart."""
