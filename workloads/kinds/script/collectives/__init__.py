"""What a script's calls become: trees that an engine runs. Pure."""
