"""Long work on a store: mining, imports, second looks, neighbours, all by one loop."""
