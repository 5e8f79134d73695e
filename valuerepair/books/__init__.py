"""Opening books from candidates, and the check of any book against lc0's reader."""
