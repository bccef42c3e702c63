"""The project's own benchmarks. `make bench` runs them; README.md says what they measure and keeps the figures."""
