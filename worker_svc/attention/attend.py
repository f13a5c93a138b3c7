"""Attention of one group over gathered K/V: torch's fused kernel where it fits, plain math for the
rest.

Grouped query heads (GQA): query head h reads K/V head h // (query heads / kv heads). For decodes
the heads of a group are folded into the query axis, so that K/V are never repeated in memory.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from worker_svc.attention.plan import Group


def attend(
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: Group,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> None:
    """Writes the group's rows of `out` (T, Hq, dv). query (T, Hq, dk); key, value (b, Hkv, length,
    d).
    """
    fused = softcap is None and sinks is None and key.shape[-1] == value.shape[-1]
    if isinstance(group.rows, slice):
        out[group.rows] = _prefill(
            query[group.rows], key, value, group, scale, softcap, sinks, fused
        )
    else:
        out[group.rows] = _decode(
            query[group.rows], key, value, group, scale, softcap, sinks, fused
        )


def _prefill(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: Group,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
    fused: bool,
) -> torch.Tensor:
    """query (n, Hq, dk) -> (n, Hq, dv)."""
    heads = query.transpose(0, 1)[None]
    count = heads.shape[2]
    if fused:
        found = functional.scaled_dot_product_attention(
            heads,
            key,
            value,
            attn_mask=group.mask,
            is_causal=group.causal and count > 1,
            scale=scale,
            enable_gqa=heads.shape[1] != key.shape[1],
        )
    else:
        mask = group.mask
        if group.causal:
            mask = torch.ones(count, count, dtype=torch.bool, device=query.device).tril_()
        found = plain_attention(heads, key, value, mask, scale, softcap, sinks)
    return found[0].transpose(0, 1)


def _decode(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    group: Group,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
    fused: bool,
) -> torch.Tensor:
    """query (b, Hq, dk), one token each -> (b, Hq, dv)."""
    batch, heads, _ = query.shape
    if fused:
        folded = query.view(batch, key.shape[1], heads // key.shape[1], -1)
        found = functional.scaled_dot_product_attention(
            folded, key, value, attn_mask=group.mask, scale=scale
        )
    else:
        found = plain_attention(query[:, :, None], key, value, group.mask, scale, softcap, sinks)
    return found.reshape(batch, heads, -1)


def plain_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """softmax(cap(q k^T scale) + mask) v in float32. sinks (Hq,): a logit per head that takes
    weight and gives nothing.
    """
    repeat = query.shape[1] // key.shape[1]
    if repeat > 1:
        key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
    weight = (query @ key.transpose(-1, -2)).float() * scale
    if softcap is not None:
        weight = softcap * torch.tanh(weight / softcap)
    if mask is not None:
        weight = weight.masked_fill(~mask, float("-inf"))
    if sinks is not None:
        sink = sinks.float().view(1, -1, 1, 1).expand(weight.shape[0], -1, weight.shape[2], 1)
        weight = torch.softmax(torch.cat([weight, sink], -1), -1)[..., :-1]
    else:
        weight = torch.softmax(weight, -1)
    return weight.to(value.dtype) @ value
