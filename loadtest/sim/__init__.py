"""Discrete-event simulator in virtual time, over the policies and evictors that serve."""
