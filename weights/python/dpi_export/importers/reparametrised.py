"""Finds weights that a layer works out anew at every call: weight norm, spectral norm, pruning, parametrisations.

torch keeps them in hooks and in changed classes, so without this every other check would name the hook or the class instead.
"""

_UTILS = "torch.nn.utils"


def reparametrised(module):
    """What is done to a weight of this layer and how to undo it, as a text; None when nothing is."""
    for name, steps in (getattr(module, "parametrizations", None) or {}).items():
        kinds = ", ".join(type(s).__name__.lstrip("_") for s in steps)
        return (f"'{name}' is parametrised by {kinds}; make it a plain weight first: "
                f"{_UTILS}.parametrize.remove_parametrizations(layer, '{name}')")
    for hook in (getattr(module, "_forward_pre_hooks", None) or {}).values():
        known = {f"{c.__module__}.{c.__name__}" for c in type(hook).__mro__}
        if f"{_UTILS}.prune.BasePruningMethod" in known:
            return (f"'{hook._tensor_name}' is pruned ({_pruning(hook)}); make it a plain weight first: "
                    f"{_UTILS}.prune.remove(layer, '{hook._tensor_name}')")
        for kind, what in (("weight_norm.WeightNorm", "weight_norm"), ("spectral_norm.SpectralNorm", "spectral_norm")):
            if f"{_UTILS}.{kind}" in known:
                return (f"'{hook.name}' is under {what}; make it a plain weight first: "
                        f"{_UTILS}.remove_{what}(layer, '{hook.name}')")
    return None


def _pruning(hook):
    methods = getattr(hook, "_pruning_methods", None) or (hook,)  # a container holds what was pruned more than once
    return ", ".join(type(m).__name__ for m in methods)


def refuse_reparametrised(ctx, model):
    """Raises UnsupportedModelError that names the layer, its weight and what was done to it."""
    for _, module in model.named_modules():
        found = reparametrised(module)
        if found:
            ctx.refuse(module, found)
