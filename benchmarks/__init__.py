"""What is measured: each script prints a table. A package, so that tests may use `benchmarks.loopback`."""
