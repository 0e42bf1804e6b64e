"""The service's metrics, summed over its workers.

- `metrics`: the counters, gauges and histograms, and their Prometheus text.
- `multiprocess`: sums over the workers' shared files.
"""
