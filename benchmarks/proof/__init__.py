"""Does training on candidates repair a net's judgement elsewhere? The experiments of docs/proof."""
