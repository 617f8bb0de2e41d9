"""Trials that go on when nodes die."""
