"""Files: written so that a reader finds a whole one or none, and read if others wrote them."""
