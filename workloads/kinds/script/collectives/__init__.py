"""Translation of a script's calls into trees that an engine runs; pure logic."""
