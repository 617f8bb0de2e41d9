"""Decisions of the scheduler while a trial runs; pure logic."""
