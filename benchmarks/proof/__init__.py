"""Does training on candidates repair a net's judgement elsewhere? The experiments of docs/proof.

B1 to B7 are the parts of docs/proof/second-plan.md.
"""
