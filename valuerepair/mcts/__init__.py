"""The project's own search: a forest of Monte-Carlo trees over one net, exact where lc0 is exact, and a UCI engine."""
