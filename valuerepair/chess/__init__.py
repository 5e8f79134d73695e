"""The chess that all other packages use: boards as kernels, positions, origins, values, records, progress."""
