"""A simulated engine as pure data and arithmetic: paged cache, continuous batch, time. The mock engine drives it with a clock."""
