"""Looking at a store: plots, tables, boards, the HTML page."""
