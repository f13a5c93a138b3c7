"""Block bookkeeping of the paged KV cache: no tensors, standard library only."""
