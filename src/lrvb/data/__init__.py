"""What users bring: tables checked at the door, files that are whole or absent."""
