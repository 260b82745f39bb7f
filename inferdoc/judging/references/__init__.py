"""What a window is compared with: its history, an earlier time range, a stored baseline, the life of the processes."""
