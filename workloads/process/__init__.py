"""What a process has used, what becomes of it, and when it ends."""
