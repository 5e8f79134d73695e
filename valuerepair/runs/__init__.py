"""Long work on a store: mining, second looks, expansion, comparisons; one thread writes, others read and compute."""
