"""What is generated into a checkout."""
