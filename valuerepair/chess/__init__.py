"""The ground of chess that every room stands on: boards as kernels, positions, origins, values, records, progress."""
