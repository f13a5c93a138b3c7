"""Faster linears, norms and decode attention on CPU under the models' own code; float32 only."""
