"""What is known about candidates: labels, verdicts, weights, families, neighbours, nets compared."""
