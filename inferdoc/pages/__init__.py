"""Pages of engines that nobody scraped before: looked at for a minute, or read from files, and diagnosed."""
