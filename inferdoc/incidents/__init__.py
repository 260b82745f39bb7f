"""The incident database: alerts, diagnosis runs and their results."""
