"""Opening books from candidates, and the check of any book by the rules of lc0's reader."""
