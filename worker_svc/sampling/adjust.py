"""Changes to logits that depend on the tokens seen: bias, penalties, bans. All are pure functions
of prompt and output.
"""

from __future__ import annotations

import torch

from worker_svc.engine.base import Pick


def needs_adjusting(pick: Pick) -> bool:
    """False for plain greedy and plain sampling: their logits are used as they are."""
    sampling = pick.sampling
    return bool(
        sampling.logit_bias
        or pick.banned
        or sampling.repetition_penalty != 1.0
        or sampling.presence_penalty
        or sampling.frequency_penalty
    )


def adjust(logits: torch.Tensor, pick: Pick) -> torch.Tensor:
    """logits (vocab,) float32 -> a changed copy. In this order:

    - repetition penalty r on tokens of prompt and output: l / r if l > 0, else l * r (as in
      transformers);
    - frequency f and presence p on tokens of the output: l - f * count - p (as in the OpenAI API);
    - logit bias, added; banned tokens, -inf.
    """
    sampling = pick.sampling
    out = logits.clone()
    device = logits.device
    if sampling.repetition_penalty != 1.0:
        seen = torch.tensor(sorted(set(pick.tokens)), device=device)
        values = out[seen]
        penalty = sampling.repetition_penalty
        out[seen] = torch.where(values > 0, values / penalty, values * penalty)
    made = pick.tokens[pick.prompt_tokens :]
    if made and (sampling.presence_penalty or sampling.frequency_penalty):
        tokens, counts = torch.tensor(list(made), device=device).unique(return_counts=True)
        out[tokens] -= sampling.frequency_penalty * counts + sampling.presence_penalty
    if sampling.logit_bias:
        tokens = torch.tensor(list(sampling.logit_bias), device=device)
        out[tokens] += torch.tensor(list(sampling.logit_bias.values()), device=device)
    if pick.banned:
        out[torch.tensor(sorted(pick.banned), device=device)] = float("-inf")
    return out
