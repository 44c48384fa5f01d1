"""The model of policies/pi05 once more, in float64 NumPy, layer by layer, from openpi's published conventions alone.

No part of it is shared with the model but the names of the weights: attention by explicit loops over heads, rotations as
complex numbers, norms as their formulas read.
"""

from __future__ import annotations

import math

import numpy as np

LARGE = -2.3819763e38


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swish(x):
    return x / (1 + np.exp(-x))


def dense(w, name, x):
    return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]


def attend(query, key, value, allowed):
    """[T, N, H], [S, K, H] twice and bool [T, S]: loops over the query heads."""
    heads, shared = query.shape[1], key.shape[1]
    out = np.empty_like(query)
    for n in range(heads):
        k = n // (heads // shared)
        out[:, n] = softmax(np.where(allowed, query[:, n] @ key[:, k].T, LARGE)) @ value[:, k]
    return out


def layer_norm(x, scale, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6) * scale + bias


def siglip(w, image, patch, depth):
    """One picture [S, S, 3] in [-1, 1] to [P, D of the trunk]."""
    kernel = w["PaliGemma/img/embedding/kernel"]
    side = image.shape[0] // patch
    rows = []
    for i in range(side):
        for j in range(side):
            cut = image[i * patch : (i + 1) * patch, j * patch : (j + 1) * patch]
            rows.append(np.tensordot(cut, kernel, 3) + w["PaliGemma/img/embedding/bias"])
    x = np.array(rows) + w["PaliGemma/img/pos_embedding"][0]
    for layer in range(depth):
        b = {
            k.split("encoderblock/")[1]: v[layer]
            for k, v in w.items()
            if k.startswith("PaliGemma/img/Transformer/encoderb")
        }
        normed = layer_norm(x, b["LayerNorm_0/scale"], b["LayerNorm_0/bias"])
        a = "MultiHeadDotProductAttention_0"
        q, k, v = (
            np.tensordot(normed, b[f"{a}/{n}/kernel"], 1) + b[f"{a}/{n}/bias"] for n in ("query", "key", "value")
        )
        read = attend(q / math.sqrt(q.shape[-1]), k, v, np.ones((len(x), len(x)), bool))
        x = x + np.tensordot(read, b[f"{a}/out/kernel"], 2) + b[f"{a}/out/bias"]
        normed = layer_norm(x, b["LayerNorm_1/scale"], b["LayerNorm_1/bias"])
        x = x + dense(b, "MlpBlock_0/Dense_1", gelu(dense(b, "MlpBlock_0/Dense_0", normed)))
    x = layer_norm(x, *(w[f"PaliGemma/img/Transformer/encoder_norm/{n}"] for n in ("scale", "bias")))
    return dense(w, "PaliGemma/img/head", x)


def rotated(x, places):
    """[T, N, H]: pairs (i, i + H/2) as complex numbers."""
    half = x.shape[-1] // 2
    turn = np.exp(1j * np.asarray(places)[:, None, None] / 10_000.0 ** (2 * np.arange(half) / x.shape[-1]))
    z = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate([z.real, z.imag], -1)


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def norm(w, name, x, condition):
    if f"{name}/scale" in w:
        return rms(x) * (1 + w[f"{name}/scale"]), 1.0
    scale, shift, gate = np.split(dense(w, f"{name}/Dense_0", condition), 3)
    return rms(x) * (1 + scale) + shift, gate


def gemma(w, streams, places, allowed, condition, depth):
    """Tokens [T_i, D_i] of both streams through all layers and the last norms; one lane."""
    xs = list(streams)
    cut = len(xs[0])
    for layer in range(depth):
        b = {k.split("layers/")[1]: v[layer] for k, v in w.items() if k.startswith("PaliGemma/llm/layers/")}
        normed, gates = zip(
            *(norm(b, f"pre_attention_norm{s}", x, condition) for s, x in zip(("", "_1"), xs, strict=True)), strict=True
        )
        q = np.concatenate(
            [np.einsum("td,ndh->tnh", x, b[f"attn/q_einsum{s}/w"]) for s, x in zip(("", "_1"), normed, strict=True)]
        )
        k, v = (
            np.concatenate(
                [
                    np.einsum("td,kdh->tkh", x, b[f"attn/kv_einsum{s}/w"][i])
                    for s, x in zip(("", "_1"), normed, strict=True)
                ]
            )
            for i in (0, 1)
        )
        read = attend(rotated(q, places) / math.sqrt(q.shape[-1]), rotated(k, places), v, allowed)
        for i, (s, part) in enumerate((("", read[:cut]), ("_1", read[cut:]))):
            xs[i] = xs[i] + np.einsum("tnh,nhd->td", part, b[f"attn/attn_vec_einsum{s}/w"]) * gates[i]
            h, gate = norm(b, f"pre_ffw_norm{s}", xs[i], condition)
            first, second = b[f"mlp{s}/gating_einsum"]
            xs[i] = xs[i] + (gelu(h @ first) * (h @ second)) @ b[f"mlp{s}/linear"] * gate
    w = {k.removeprefix("PaliGemma/llm/"): v for k, v in w.items()}
    return [norm(w, f"final_norm{s}", x, condition)[0] for s, x in zip(("", "_1"), xs, strict=True)]


def velocity(w, config, images, image_mask, tokens, token_mask, state, noisy, time):
    """One lane: [T, A]."""
    table = w["PaliGemma/llm/embedder/input_embedding"]
    seen = [siglip(w, image, config.vision.patch, config.vision.depth) for image in images]
    prefix = np.concatenate([*seen, table[tokens] * math.sqrt(table.shape[1])])
    valid = np.concatenate([np.repeat(image_mask, len(seen[0])), token_mask])
    width = config.expert.width
    period = np.geomspace(4e-3, 4.0, width // 2)
    features = np.concatenate([np.sin(2 * np.pi * time / period), np.cos(2 * np.pi * time / period)])
    suffix, condition = dense(w, "action_in_proj", noisy), None
    block = [0] * len(prefix)
    if config.time_conditioned:
        condition = swish(dense(w, "time_mlp_out", swish(dense(w, "time_mlp_in", features))))
        block += [1] * len(noisy)
    else:
        both = np.concatenate([suffix, np.broadcast_to(features, suffix.shape)], 1)
        suffix = dense(w, "action_time_mlp_out", swish(dense(w, "action_time_mlp_in", both)))
        suffix = np.concatenate([dense(w, "state_proj", state)[None], suffix])
        block += [1] + [2] * len(noisy)
    valid = np.concatenate([valid, np.ones(len(suffix), bool)])
    total = len(block)
    allowed = np.array([[block[k] <= block[q] and valid[k] and valid[q] for k in range(total)] for q in range(total)])
    places = [sum(valid[: i + 1]) - 1 for i in range(total)]
    acted = gemma(w, (prefix, suffix), places, allowed, condition, config.depth)[1]
    return dense(w, "action_out_proj", acted[-len(noisy) :])


def sample(w, config, noise, steps=10, **inputs):
    """One lane: Euler from 1 to 0."""
    x = noise
    for i in range(steps):
        x = x - velocity(w, config, noisy=x, time=1 - i / steps, **inputs) / steps
    return x
