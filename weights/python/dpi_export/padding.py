"""Padded id matrices, as models hold the bags of a sequence feature."""

import numpy as np


def strip_padding(ids, pad_id=0, side="post"):
    """Rows of a padded id matrix [B, T] as lists without the padding that stands on `side`."""
    out = []
    for row in ids:
        real = np.flatnonzero(row != pad_id)
        if not len(real):
            out.append([])
        else:
            out.append(row[: real[-1] + 1].tolist() if side == "post" else row[real[0]:].tolist())
    return out


def pad_bags(bags, max_len, side="post"):
    """Bags as rows of a padded id matrix, cut as the library cuts them: at the side away from padding's."""
    out = np.zeros((len(bags), max_len), np.int64)
    for row, bag in zip(out, bags):
        kept = list(bag)[:max_len] if side == "post" else list(bag)[-max_len:]
        if kept:
            row[slice(len(kept)) if side == "post" else slice(max_len - len(kept), None)] = kept
    return out


def random_bags(rng, n, max_len, vocab_size, side="post"):
    """A padded id matrix: row 0 is empty, row 1 full, the rest of random length."""
    out = np.zeros((n, max_len), np.int64)
    for i in range(n):
        length = (0, max_len)[i] if i < 2 else rng.integers(0, max_len + 1)
        ids = rng.integers(min(1, vocab_size - 1), vocab_size, length)
        out[i, :length] = ids
        if side == "pre":
            out[i] = np.roll(out[i], max_len - length)
    return out


def check_padding(ctx, name, encoder, pad_id):
    """Refuses an encoder of a padded sequence that gives a value the id of padding: the model would not see it."""
    if encoder is None or not encoder.steps:
        return
    entries = encoder.entries()
    if entries is not None:
        words = [e.decode(errors="replace") if isinstance(e, bytes) else e for e, i in entries.items() if i == pad_id]
        hidden = [w for w in words if w not in encoder.padding]
        if hidden:
            ctx.refuse(f"encoder of sequence '{name}'", f"gives {hidden[0]!r} id {pad_id}, which is padding in this model; "
                                                        "ids of a padded sequence start behind it")
    elif encoder.steps[-1]["op"] != "to_id":
        lo, hi = encoder.id_range()
        if lo is not None and lo <= pad_id <= hi:
            ctx.refuse(f"encoder of sequence '{name}'", f"gives ids {lo} to {hi}, but {pad_id} is padding in this model")
