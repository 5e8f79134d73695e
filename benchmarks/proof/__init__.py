"""Does training on candidates repair a net's judgement elsewhere? The experiment of docs/proof.md."""
