"""AUC with its standard error by DeLong, DeLong and Clarke-Pearson (1988), of one model or of the difference of two on the same rows."""

import numpy as np
import scipy.stats


def placements(scores, labels):
    """(of each positive the share of negatives below it, of each negative the share of positives above it); a tie counts half."""
    positive, negative = scores[labels], scores[~labels]
    ranks = scipy.stats.rankdata(scores)
    below = (ranks[labels] - scipy.stats.rankdata(positive)) / len(negative)
    above = 1 - (ranks[~labels] - scipy.stats.rankdata(negative)) / len(positive)
    return below, above


def mean_with_error(parts):
    """(AUC, its standard error) from placements: mean and the variances of both sides."""
    below, above = parts
    return float(below.mean()), float(np.sqrt(below.var(ddof=1) / len(below) + above.var(ddof=1) / len(above)))


def over_seeds(scores, labels):
    """scores [seeds, rows] -> the placements' mean over seeds, whose AUC is the mean of the AUCs; and the AUC of each seed."""
    each = [placements(s, labels) for s in scores]
    return tuple(np.mean([p[side] for p in each], axis=0) for side in (0, 1)), [float(p[0].mean()) for p in each]


def summary(scores, labels):
    """AUC as the mean over seeds. `se` has both noises: which rows came, and which seed trained."""
    parts, each = over_seeds(scores, labels)
    auc, rows = mean_with_error(parts)
    return {"auc": auc, "se": _both(rows, each), "by_seed": each}


def difference(one, other, labels):
    """AUC of one minus that of the other, on the same rows and with the same seeds."""
    (a, each), (b, others) = over_seeds(one, labels), over_seeds(other, labels)
    auc, rows = mean_with_error((a[0] - b[0], a[1] - b[1]))
    return {"auc": auc, "se": _both(rows, [x - y for x, y in zip(each, others)])}


def within(strata, one, other=None):
    """AUC (or one's minus other's) of pairs that come from one stratum, each weighing by its pairs. strata: [(slice of rows, labels)]."""
    found = [(labels.sum() * (~labels).sum(), over_seeds(one[:, rows], labels), other is not None and over_seeds(other[:, rows], labels))
             for rows, labels in strata if 0 < labels.sum() < len(labels)]
    weights = np.array([f[0] for f in found]) / sum(f[0] for f in found)
    each, errors = np.zeros(len(one)), []
    for weight, (_, (parts, by_seed), minus) in zip(weights, found):
        if minus:
            parts, by_seed = [a - b for a, b in zip(parts, minus[0])], np.subtract(by_seed, minus[1])
        each += weight * np.array(by_seed)
        errors.append(weight * mean_with_error(parts)[1])
    return {"auc": float(each.mean()), "se": _both(float(np.sqrt(np.sum(np.square(errors)))), each)}


def _both(rows, each):
    spread = np.var(each, ddof=1) / len(each) if len(each) > 1 else 0.0
    return float(np.sqrt(rows ** 2 + spread))


def log_loss(scores, labels):
    """Mean over seeds and rows."""
    p = np.clip(scores, 1e-15, 1 - 1e-15)
    return float(-np.mean(np.where(labels, np.log(p), np.log1p(-p))))
