"""Nets at one node: files and registry, lc0's input planes and policy, ONNX Runtime sessions."""
