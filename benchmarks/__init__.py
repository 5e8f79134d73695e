"""Speed against the alternatives, as ratios: `python -m benchmarks`. What it measured: docs/performance.md."""
