"""What a window is compared with: its history, an earlier stretch, a stored baseline, the life of the processes."""
