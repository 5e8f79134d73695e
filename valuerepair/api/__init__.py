"""The public Python interface, behind ``import valuerepair``: a store to read, nets to ask, books and figures to make.

Nothing is computed here that another room does not compute; docs/python.md describes it with examples.
"""
