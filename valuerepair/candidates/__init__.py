"""What is known about a candidate: labels, confirmation, weights, families and diversity, neighbours, remeasuring."""
