"""What is integrated out, behind four questions about the global moments."""
