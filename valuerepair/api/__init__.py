"""The public Python interface: what `import valuerepair` gives, and what each command of `vr` calls."""
