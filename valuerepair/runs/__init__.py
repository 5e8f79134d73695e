"""Long work on a store: mining, second looks, checks; one writer, threads beside it."""
