"""Views of a store: plots, tables, boards, the HTML page."""
